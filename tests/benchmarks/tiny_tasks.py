"""What the benchmark's model says: tasks that are trivial, hold in every sandbox, and are as long as real ones.

Task ``number`` is a ledger of its own to be summed up, so no two instructions are near-duplicates. On a null sandbox a
test passes when its text holds the word "initial", or after some command (``runner/sandbox/null.py``); hence no final
test here says it.
"""

import random

SHOPS = ("harbour", "mill", "orchard", "station", "bridge", "castle", "market", "garden", "tower", "quarry", "ferry")
GOODS = ("rope", "nails", "paint", "canvas", "timber", "glass", "copper", "wool", "cement", "salt", "paper", "leather")
DOINGS = ("ordered", "returned", "counted", "packed", "shipped", "weighed", "sold", "stored", "promised", "checked")
ROWS = 24
TURNS = 4
"""Of every episode: look, sum up, check, done."""


def describe(number: int) -> str:
    """Instruction, truth and solution."""
    truth = "\n".join(f"ledger line {i}: {name} costs {amount}" for i, (name, amount) in enumerate(_rows(number), 1))
    return (
        f"<instruction>\nThis is ticket {number}. {_story(number)} The ledger is {_ledger(number)}: a header, then one "
        f"line an article with its name and its amount. Write the sum of all amounts, and nothing else, to "
        f"{_report(number)}, as one line.\n</instruction>\n"
        f"<truth>\n{truth}\nthe sum is {_total(number)}\n</truth>\n"
        f"<solution>\n```bash\n{_sum(number)}\n```\n</solution>\n"
    )


def environment(number: int) -> str:
    """Set-up script and initial-state test."""
    lines = "\n".join(f"{name},{amount}" for name, amount in _rows(number))
    return (
        f"<setup>\n```bash\nset -euo pipefail\nmkdir -p /home/user/books\ncat > {_ledger(number)} <<'END'\n"
        f"article,amount\n{lines}\nEND\n```\n</setup>\n"
        f"<initial_test>\n```python\nfrom pathlib import Path\n\n\ndef test_initial_ledger():\n"
        f"    lines = Path('{_ledger(number)}').read_text().splitlines()\n"
        f"    assert lines[0] == 'article,amount'\n    assert len(lines) == {ROWS + 1}\n\n\n"
        f"def test_initial_absence_of_the_report():\n    assert not Path('{_report(number)}').exists()\n```\n"
        "</initial_test>\n"
    )


def final(number: int) -> str:
    """The final test."""
    facts = "\n".join(f"# {name} costs {amount}" for name, amount in _rows(number))
    return (
        f"<final_test>\n```python\nfrom pathlib import Path\n\n{facts}\nREPORT = Path('{_report(number)}')\n\n\n"
        "def test_the_report_exists():\n    assert REPORT.is_file(), 'there is no report'\n\n\n"
        "def test_the_report_is_the_sum():\n    assert REPORT.is_file()\n"
        f"    assert REPORT.read_text().strip() == '{_total(number)}'\n```\n</final_test>\n"
    )


def solve(number: int, turn: int) -> str:
    """One turn of an episode."""
    thought = f"<think>\nTicket {number}, turn {turn + 1}. {_story(number + 1000 * (turn + 1))}\n</think>\n"
    commands = [f"head -5 {_ledger(number)}", _sum(number), f"cat {_report(number)}"]
    action = f"<command>{commands[turn]}</command>" if turn < TURNS - 1 else "<action>done</action>"
    return thought + action


def _story(number: int) -> str:
    """About a kilobyte of sentences that no other number has."""
    dice = random.Random(number)
    return " ".join(
        f"The {dice.choice(SHOPS)} {dice.choice(DOINGS)} {dice.randint(2, 99)} {dice.choice(GOODS)} "
        f"before the {dice.choice(SHOPS)} {dice.choice(DOINGS)} its {dice.choice(GOODS)}."
        for _ in range(14)
    )


def _rows(number: int) -> list[tuple[str, int]]:
    dice = random.Random(f"rows/{number}")
    return [(f"{dice.choice(GOODS)}-{dice.choice(SHOPS)}-{i}", dice.randint(1, 9999)) for i in range(ROWS)]


def _total(number: int) -> int:
    return sum(amount for _, amount in _rows(number))


def _ledger(number: int) -> str:
    return f"/home/user/books/ledger-{number}.csv"


def _report(number: int) -> str:
    return f"/home/user/report-{number}.txt"


def _sum(number: int) -> str:
    return f"awk -F, 'NR > 1 {{ sum += $2 }} END {{ print sum }}' {_ledger(number)} > {_report(number)}"
