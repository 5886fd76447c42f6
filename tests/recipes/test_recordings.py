"""The quickstart's recordings are well formed, show what their README promises, and run on a bare machine."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, pairwise, takewhile

import pytest

from runner.agent.protocol import Command, Done, Invalid, parse_reply
from runner.analysis.dedupe import jaccard, shingles
from runner.llm.recording import Reply, draw_of, order, read_file
from runner.phases.generate import describe
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Reject
from runner.phases.generate.reply import ReplyError, sections
from runner.schema import Agent, Generate
from runner.share import share_dir

FOLDER = share_dir("recipes") / "recordings" / "quickstart"
DRAWS = range(12)
SAMPLES = 6
LIMITS = Agent()
FOREIGN = re.compile(
    r"(^|[|;&(`\s])(apt|apt-get|pip|pip3|curl|wget|jq|sqlite3|gawk|perl|sudo|su|chown|useradd|crontab|systemctl)[ \t]",
    re.MULTILINE,
)
"""Programs that a fresh machine may lack, or that a sandbox with a single user id cannot run."""


@lru_cache
def replies(draw: int) -> dict[str, Reply]:
    return read_file(FOLDER / f"{draw:06d}.yaml")


def texts(draw: int, stage: str) -> list[str]:
    """The replies of one stage, in the order of their rounds."""
    slots = sorted((s for s in replies(draw) if s.startswith(f"{stage}/")), key=order)
    return [replies(draw)[slot].text for slot in slots]


def episode(draw: int, sample: int) -> list[Reply]:
    prefix = f"solve/{draw:06d}/{sample}/"
    found = {int(slot.removeprefix(prefix)): reply for slot, reply in replies(draw).items() if slot.startswith(prefix)}
    assert sorted(found) == list(range(len(found))), f"turns are missing in {prefix}"
    return [found[turn] for turn in range(len(found))]


def how_it_ends(turns: list[Reply]) -> str:
    actions = [parse_reply(turn.text) for turn in turns]
    assert all(not isinstance(action, Done) for action in actions[:-1]), "a reply after done"
    if isinstance(actions[-1], Done):
        return "done"
    if all(isinstance(action, Invalid) for action in actions[-LIMITS.max_invalid :]):
        return "invalid"
    assert len(turns) == LIMITS.max_turns, "it stops before the turn limit"
    commands = [action.text for action in actions if isinstance(action, Command)]
    again = list(takewhile(lambda command: command == commands[-1], reversed(commands)))
    return "loop" if len(again) > 10 else "turns"


def described(draw: int) -> describe.Description | None:
    """The description that the gate accepts; None when every reply is refused."""
    for text in texts(draw, "describe"):
        try:
            found = describe.judge(text, oracle=True)
        except ReplyError:
            continue
        if isinstance(found, describe.Description):
            return found
    return None


def readme_table(first_column: str) -> list[dict[str, str]]:
    lines = iter((FOLDER / "README.md").read_text(encoding="utf-8").splitlines())
    header = next(line for line in lines if line.startswith(f"| {first_column} |"))
    assert next(lines).startswith("|---")
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [dict(zip(cells(header), cells(row), strict=True)) for row in rows]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What each draw shows, and what comes out of it."""
    shows, comes_out = readme_table("draw | category"), readme_table("draw | generate")
    assert [int(row["draw"]) for row in shows] == [int(row["draw"]) for row in comes_out] == list(DRAWS)
    return shows, comes_out


OUTCOMES = tables()[1]
TASKS = [int(row["draw"]) for row in OUTCOMES if row["generate"] == "kept"]
"""The draws that the solver gets to see."""


def test_there_is_one_file_per_draw():
    assert sorted(path.name for path in FOLDER.glob("*.yaml")) == [f"{draw:06d}.yaml" for draw in DRAWS]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_file_holds_only_its_own_draw_in_the_order_of_asking(draw):
    slots = list(replies(draw))
    assert {draw_of(slot) for slot in slots} == {f"{draw:06d}"}
    stages = ["describe", "environment", "final", "solve"]
    assert slots == sorted(slots, key=lambda slot: (stages.index(slot.split("/")[0]), order(slot)))


@pytest.mark.parametrize("draw", DRAWS)
def test_the_labels_of_a_file_are_the_readmes(draw):
    head = dict(re.findall(r"^# (\w+): (.+)$", (FOLDER / f"{draw:06d}.yaml").read_text(encoding="utf-8"), re.MULTILINE))
    row = tables()[0][draw]
    assert {name: head[name] for name in ("category", "complexity", "scenario")} == {
        name: row[name] for name in ("category", "complexity", "scenario")
    }


def test_no_category_occurs_twice():
    categories = [row["category"] for row in tables()[0]]
    assert len(set(categories)) == len(categories)


@pytest.mark.parametrize("draw", DRAWS)
def test_every_stage_has_as_many_rounds_as_the_readme_says(draw):
    rounds = [len(texts(draw, stage)) for stage in ("describe", "environment", "final")]
    assert [str(n) for n in rounds if n] == OUTCOMES[draw]["rounds"].split()
    assert max(rounds) <= Generate().rounds


def test_one_description_leaks_one_cannot_be_read_at_first_and_all_others_are_accepted():
    leaked = describe.judge(texts(3, "describe")[0], oracle=True)
    assert isinstance(leaked, Reject)
    assert leaked.reason is Reason.LEAK
    with pytest.raises(ReplyError, match="<truth>"):
        describe.judge(texts(9, "describe")[0], oracle=True)
    assert [draw for draw in DRAWS if described(draw) is None] == [3]


def test_draw_5_repeats_draw_0_and_no_other_two_are_alike():
    grams = {draw: shingles(found.instruction) for draw in DRAWS if (found := described(draw))}
    alike = {(a, b): jaccard(grams[a], grams[b]) for a, b in combinations(grams, 2)}
    assert alike.pop((0, 5)) >= Generate().duplicate_similarity
    assert max(alike.values()) < 0.1


@pytest.mark.parametrize("draw", [draw for draw in DRAWS if draw != 3])
def test_environments_and_final_tests_have_their_sections(draw):
    for text in texts(draw, "environment"):
        found = sections(text, ("setup", "initial_test"), ("start",))
        compile(found["initial_test"], "initial_test", "exec")
        assert "set -euo pipefail" in found["setup"]
        assert ("start" in found) == (draw == 2)
    for text in texts(draw, "final"):
        compile(sections(text, ("final_test",))["final_test"], "final_test", "exec")


@pytest.mark.parametrize("draw", DRAWS)
def test_scripts_need_nothing_that_a_fresh_machine_may_lack(draw):
    for script in scripts(draw):
        found = FOREIGN.search(script)
        assert found is None, f"{found and found.group().strip()!r} in {script[:200]!r}"


def scripts(draw: int) -> Iterator[str]:
    for text in texts(draw, "environment"):
        yield from sections(text, ("setup",), ("start",)).values()
    found = described(draw)
    yield found.solution if found else ""
    for text in texts(draw, "solve"):
        action = parse_reply(text)
        yield action.text if isinstance(action, Command) else ""


@pytest.mark.parametrize("draw", DRAWS)
def test_the_solver_is_recorded_for_tasks_only_and_ends_as_the_readme_says(draw):
    if draw not in TASKS:
        assert not texts(draw, "solve")
        return
    said = OUTCOMES[draw]["attempts 0 to 5"].split()
    ends = [how_it_ends(episode(draw, sample)) for sample in range(SAMPLES)]
    assert ends == [end if end in ("loop", "turns", "invalid") else "done" for end in said]
    passes = [word == "pass" for word in said]
    assert OUTCOMES[draw]["passes of 4"] == str(sum(passes[:4]))
    assert OUTCOMES[draw]["passes of 6"] == str(sum(passes))


def test_eight_of_the_twelve_draws_stay_with_varied_pass_rates():
    kept = [row for row in OUTCOMES if row["filter"] == "kept"]
    assert len(kept) == 8
    assert all(int(row["passes of 4"]) > 0 for row in kept)
    assert {row["passes of 4"] for row in kept} == {"1", "2", "3", "4"}


def test_one_episode_recovers_from_an_unusable_reply():
    first, *rest = (parse_reply(turn.text) for turn in episode(8, 1))
    assert isinstance(first, Invalid)
    assert not any(isinstance(action, Invalid) for action in rest)


@pytest.mark.parametrize("draw", TASKS)
def test_no_two_attempts_at_a_task_are_the_same(draw):
    attempts = [tuple(turn.text for turn in episode(draw, sample)) for sample in range(SAMPLES)]
    assert len(set(attempts)) == SAMPLES


@pytest.mark.parametrize("draw", TASKS)
def test_token_counts_grow_with_the_conversation_and_stay_in_the_context(draw):
    for sample in range(SAMPLES):
        usages = [turn.usage for turn in episode(draw, sample) if turn.usage]
        assert len(usages) == len(episode(draw, sample))
        assert all(a.input_tokens + a.output_tokens <= b.input_tokens for a, b in pairwise(usages))
        assert usages[-1].input_tokens + usages[-1].output_tokens < LIMITS.context_tokens
        assert all(usage.output_tokens <= LIMITS.turn_tokens for usage in usages)
