"""The answer in a few sentences: what was made, how good the models are, why they fail, what it cost."""

from collections.abc import Iterator

from runner.analysis.failures import FailureMode
from runner.report.data import FailureSet, ReportData
from runner.report.document import Bullets, Section
from runner.report.text import dollars, p_value, percent, rate, words

_MODES = 3


def section(data: ReportData) -> Section | None:
    """None where there is nothing to say."""
    items = [*_tasks(data), *_scores(data), *_bench(data), *_failures(data), *_cost(data)]
    return Section(title="In short", blocks=[Bullets(items=items)]) if items else None


def _tasks(data: ReportData) -> Iterator[str]:
    draws = sum(row["draws"] for row in data.attrition)
    verified = sum(row["draws"] for row in data.attrition if row["reason"] == "kept")
    if draws:
        text = f"Tasks: {verified:,} of {draws:,} draws became verified tasks"
        kept = sum(row["tasks"] for row in data.filtered if row["reason"] == "kept")
        yield text + (f", of which the filter kept {kept:,}." if data.filtered else ".")


def _scores(data: ReportData) -> Iterator[str]:
    models = {name: row for name, row in data.scores.get("models", {}).items() if "1" in row["pass_at"]}
    if not models:
        return
    shown = [name for name in (data.before, data.after) if name in models] or list(models)[:1]
    found = [f"{name} {_rate(models[name]['pass_at']['1'])}" for name in shown]
    pair = next((p for p in data.scores["pairs"] if (p["before"], p["after"]) == (data.before, data.after)), None)
    test = f" (paired difference p = {p_value(pair['p_value'])}, {pair['tasks']} tasks)" if pair else ""
    yield f"pass@1 on its {data.scores['split']} tasks: {', '.join(found)}{test}."


def _rate(found: dict[str, float]) -> str:
    return rate(found["value"], found["low"], found["high"])


def _bench(data: ReportData) -> Iterator[str]:
    if data.bench:
        found = [f"{s.model} in {s.harness} {rate(s.value, s.low, s.high)}" for s in data.bench]
        yield f"pass@1 on {data.bench_name or 'the benchmark'}: {', '.join(found)}."


def _failures(data: ReportData) -> Iterator[str]:
    one = next((found for found in data.failures if found.key == data.last), next(iter(data.failures), None))
    if one is not None and one.summary.failures:
        yield f"Failures: of {one.summary.failures:,} failed episodes ({one.title}), {_modes(one)}."


def _modes(one: FailureSet) -> str:
    counts = {mode: one.summary.modes[mode].count for mode in FailureMode if mode is not FailureMode.INFRA}
    most = sorted((mode for mode in counts if counts[mode]), key=lambda mode: -counts[mode])[:_MODES]
    return ", ".join(f"{percent(counts[mode] / one.summary.failures)} {words(mode)}" for mode in most)


def _cost(data: ReportData) -> Iterator[str]:
    paid = [phase for phase in data.phases if f"{phase.name}/calls" in phase.metrics]
    if not paid:
        return
    calls = sum(phase.metrics[f"{phase.name}/calls"] for phase in paid)
    known = [phase.metrics.get(f"{phase.name}/dollars") for phase in paid]
    total = None if None in known else sum(value for value in known if value is not None)
    yield f"Model calls: {calls:,.0f}, {dollars(total) if total is not None else 'at a cost that is not known'}."
