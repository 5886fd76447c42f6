"""What was run: the recipe's settings, where each result comes from, what it took."""

from collections.abc import Iterator

from runner.report.data import PhaseFacts, ReportData
from runner.report.document import Block, Facts, Paragraph, Section, Table
from runner.report.text import NOTHING, dollars, duration

_COLUMNS = ("phase", "from", "fingerprint", "finished (UTC)", "time", "calls", "tokens in", "tokens out", "cost")


def section(data: ReportData) -> Section:
    """Always there."""
    return Section(title="What was run", blocks=list(_blocks(data)))


def _blocks(data: ReportData) -> Iterator[Block]:
    yield Facts(rows=data.settings)
    if data.phases:
        yield Table(
            caption="Phases",
            columns=_COLUMNS,
            texts=4,
            rows=[_row(phase) for phase in data.phases],
        )
        yield Paragraph(
            small=True,
            text="A fingerprint is a hash of the settings, code version and earlier results that a phase depends on: "
            "equal fingerprints are the same results. Time is working time. A replayed call counts as the call that it "
            "stands for, at no cost.",
        )
    if data.tracking:
        yield Paragraph(text=data.tracking)


def _row(phase: PhaseFacts) -> list[str]:
    name, m = phase.name, phase.metrics
    called = f"{name}/calls" in m
    return [
        name,
        ", ".join(phase.upstream) or NOTHING,
        phase.fingerprint,
        phase.finished,
        duration(phase.seconds),
        f"{m[f'{name}/calls']:,.0f}" if called else NOTHING,
        f"{m[f'{name}/input_tokens']:,.0f}" if called else NOTHING,
        f"{m[f'{name}/output_tokens']:,.0f}" if called else NOTHING,
        dollars(m.get(f"{name}/dollars")) if called else NOTHING,
    ]
