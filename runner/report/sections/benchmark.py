"""How good each model is on a published benchmark, run by Harbor."""

from collections.abc import Iterator

from runner.report.data import BenchScore, ReportData
from runner.report.document import Block, Paragraph, Section, Table
from runner.report.figures.scores import Dot, dots
from runner.report.text import percent, rate

_PAPER = {"before": "eval/terminalbench/pass_at_1_before", "after": "eval/terminalbench/pass_at_1"}


def section(data: ReportData) -> Section | None:
    """None where no benchmark was run."""
    if not data.bench:
        return None
    return Section(title=data.bench_name or "Benchmark", blocks=list(_blocks(data)))


def _blocks(data: ReportData) -> Iterator[Block]:
    shown = [Dot(label=f"{s.model} ({s.harness})", value=s.value, low=s.low, high=s.high) for s in data.bench]
    subtitle = "share of trials that pass, mean over tasks, with interval (bootstrap over tasks)"
    lines = [(f"paper, {word} training: {percent(value)}", value) for word, value in _published(data).items()]
    yield dots("benchmark", "pass@1 by model and harness", subtitle, shown, lines)
    published = _published(data)
    columns = ["model", "harness", "pass@1", "tasks", "trials", "infra"]
    columns += ["paper, pass@1"] if published else []
    yield Table(columns=columns, rows=[_row(score, published) for score in data.bench], texts=2)
    text = "Trials that Harbor could not score are infra and in no rate."
    if published:
        source = "; ".join(sorted({data.reference[key].source for key in _PAPER.values() if key in data.reference}))
        text += f" Paper: {source}; with its own harness, whose number of attempts we do not know."
    yield Paragraph(small=True, text=text)


def _published(data: ReportData) -> dict[str, float]:
    found = {word: data.reference.get(key) for word, key in _PAPER.items()}
    return {word: ref.value for word, ref in found.items() if ref is not None and ref.value is not None}


def _row(score: BenchScore, published: dict[str, float]) -> list[str]:
    cells = [score.model, score.harness, rate(score.value, score.low, score.high)]
    cells += [str(score.tasks), f"{score.trials:,}", str(score.infra)]
    return cells + ([percent(published.get(score.role))] if published else [])
