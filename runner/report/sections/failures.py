"""Why failures fail: modes by model, beside the paper's figures, with episodes to read."""

from collections.abc import Iterator, Mapping, Sequence

from runner.agent.protocol import read_observation
from runner.analysis.failures import FailureMode, FailureSummary
from runner.analysis.failures.diversity import DEFINITION
from runner.analysis.statistics import wilson
from runner.domain.episode import Turn
from runner.report.data import Example, FailureSet, ReportData
from runner.report.document import Block, Bullets, Line, Paragraph, Section, Table, Transcript
from runner.report.figures.failures import Panel, beside_paper, modes
from runner.report.text import NOTHING, clean, number, percent, shortened, words

MEANING = {
    FailureMode.PROTOCOL_ERROR: "too many replies in a row could not be used, or half of them in an episode that ran "
    "into a limit",
    FailureMode.LOOP: "the same commands with the same results over and over, until a limit or for half of the episode",
    FailureMode.CONTEXT_FULL: "no room for another reply",
    FailureMode.TIME_LIMIT: "the episode's time was up",
    FailureMode.TURN_LIMIT: "all turns were used, none of them to say done",
    FailureMode.WRONG_ANSWER: "the agent said done and the final state is wrong",
}
"""In order of precedence: an episode has the first that holds. Infra is apart."""

MEASURES = (
    ("loop failures", "analysis/loop_failures"),
    ("turn limit", "analysis/turn_limit"),
    ("diversity, passed", "analysis/command_diversity_pass"),
    ("diversity, failed", "analysis/command_diversity_fail"),
)
_FIRST, _LAST = 3, 2
"""Turns of an example that are shown, from its beginning and its end."""
_COMMAND, _OUTPUT, _TASK = 300, 240, 400
"""Characters shown."""
_NO_OUTPUT = "(no output)"
"""What the agent is told in place of nothing."""
_LINES = 6
"""Of an output."""


def values(summary: FailureSummary) -> dict[str, float | None]:
    """The figures that the paper has, too."""
    found = (summary.loop_share, summary.turn_limit_share, summary.diversity_pass.mean, summary.diversity_fail.mean)
    return dict(zip((key for _, key in MEASURES), found, strict=True))


def section(data: ReportData) -> Section | None:
    """None where no episode was analysed."""
    return Section(title="Failures", blocks=list(_blocks(data))) if data.failures else None


def _blocks(data: ReportData) -> Iterator[Block]:
    failed = [one for one in data.failures if one.summary.failures]
    if failed:
        yield modes({one.title: {m: c.count for m, c in one.summary.modes.items()} for one in failed})
    yield _modes_table(data)
    yield Paragraph(text="What the modes mean; an episode has the first that holds:")
    yield Bullets(items=[f"{words(mode)}: {meaning}" for mode, meaning in MEANING.items()])
    yield _measures_table(data)
    if any(_published(data).values()):
        yield beside_paper(_panels(data), [one.title for one in data.failures])
        yield Paragraph(small=True, text=_caution(data))
    window = data.failures[0].summary.diversity_pass.window
    yield Paragraph(small=True, text=f"Command diversity after a failure, k = {window}: {DEFINITION}")
    yield _work_table(data)
    if data.examples:
        yield Paragraph(text="Failed episodes, shortened:")
        yield from (_transcript(example) for example in data.examples)


def _panels(data: ReportData) -> list[Panel]:
    published, ours = _published(data), [values(one.summary) for one in data.failures]
    return [
        Panel(title=name, paper=published[key], values=[found[key] for found in ours], percent="diversity" not in key)
        for name, key in MEASURES
    ]


def _modes_table(data: ReportData) -> Table:
    """Only modes that occur have a column."""
    found = [mode for mode in MEANING if any(one.summary.modes[mode].count for one in data.failures)]
    columns = ["model", "failed", *(words(mode) for mode in found), "infra"]
    rows = [_modes_row(one, found) for one in data.failures]
    return Table(caption="Failure modes: share of failed graded episodes [95 % interval]", columns=columns, rows=rows)


def _modes_row(one: FailureSet, found: Sequence[FailureMode]) -> list[str]:
    summary = one.summary
    graded = summary.episodes - summary.infra
    shares = [_share(summary.modes[mode].count, summary.failures) for mode in found]
    return [one.title, f"{summary.failures:,} of {graded:,}", *shares, f"{summary.infra:,}"]


def _share(count: int, failures: int) -> str:
    """Whole percents: these are small numbers of episodes, and the table is wide."""
    if not failures:
        return NOTHING
    interval = wilson(count, failures)
    return f"{100 * count / failures:.0f} % [{100 * interval.low:.0f}, {100 * interval.high:.0f}]" if count else "0"


def _published(data: ReportData) -> Mapping[str, float | None]:
    found = {key: data.reference.get(key) for _, key in MEASURES}
    return {key: None if ref is None else ref.value for key, ref in found.items()}


def _measures_table(data: ReportData) -> Table:
    published = _published(data)
    columns = ["model", *(name for name, _ in MEASURES)]
    rows = [[one.title, *(_measure(key, values(one.summary)[key]) for _, key in MEASURES)] for one in data.failures]
    if any(value is not None for value in published.values()):
        rows.append(["paper (definition unknown)", *(_measure(key, published[key]) for _, key in MEASURES)])
    return Table(caption="Loops, turn limits, command diversity", columns=columns, rows=rows)


def _measure(key: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.2f}" if "diversity" in key else percent(value)


def _caution(data: ReportData) -> str:
    sources = sorted({data.reference[key].source for _, key in MEASURES if key in data.reference})
    return (
        f"Paper: {'; '.join(sources)}; measured on TerminalBench 2.0. How it defines a loop, and diversity, is not "
        "published: its lines show the order of magnitude, not the same measurement."
    )


def _work_table(data: ReportData) -> Table:
    rows = []
    for one in data.failures:
        success = one.summary.success
        top = ", ".join(used.program for used in one.summary.programs[:6]) or NOTHING
        took = (number(success.mean_turns), number(success.mean_tokens))
        rows.append([one.title, top, *took, percent(one.summary.next_succeeds)])
    columns = ("model", "programs used most", "turns to success", "tokens to success", "recovery at once")
    return Table(caption="How it works when it works", columns=columns, rows=rows, texts=2)


def _transcript(example: Example) -> Transcript:
    episode = example.episode
    count = len(episode.turns)
    title = f"{example.model}, {episode.id}: {words(example.mode)} after {count} turn{'' if count == 1 else 's'}"
    lines = [Line(kind="task", text=shortened(clean(example.instruction).strip(), _TASK))]
    for place, turn in enumerate(episode.turns):
        if _FIRST <= place < count - _LAST:
            if place == _FIRST:
                left_out = count - _FIRST - _LAST
                lines.append(Line(kind="note", text=f"{left_out} turn{'' if left_out == 1 else 's'} left out"))
            continue
        lines += _turn(turn)
    return Transcript(title=title, lines=lines)


def _turn(turn: Turn) -> Iterator[Line]:
    if turn.command is None:
        text = f"unusable reply: {clean(turn.invalid)}" if turn.invalid else "the agent says done"
        yield Line(kind="note", text=text)
        return
    yield Line(kind="command", text=shortened(clean(turn.command).strip(), _COMMAND))
    output = _beginning(clean(read_observation(turn.observation).output).strip())
    if output and output != _NO_OUTPUT:
        yield Line(kind="output", text=output)
    if turn.timed_out or turn.exit_code:
        yield Line(kind="note", text="stopped at its time limit" if turn.timed_out else f"exit code {turn.exit_code}")


def _beginning(output: str) -> str:
    lines = output.splitlines()
    cut = [*lines[:_LINES], "…"] if len(lines) > _LINES else lines
    return shortened("\n".join(cut), _OUTPUT)
