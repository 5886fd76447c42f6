"""How good each model is on the recipe's own tasks, and what training changed."""

from collections.abc import Iterator, Mapping
from typing import Any

from runner.report.data import ReportData
from runner.report.document import Block, Paragraph, Section, Table
from runner.report.figures.scores import Dot, dots, pass_at_k
from runner.report.text import NOTHING, change, one_line, p_value, percent, rate

_PAPER = {"before": "eval/dev/pass_at_1_before", "after": "eval/dev/pass_at_1"}
_MOST_MODELS, _MOST_LABELS = 4, 12
_SPLITS = {"dev": "held-out dev tasks", "train": "training tasks"}


def section(data: ReportData) -> Section | None:
    """None where nothing was evaluated."""
    if not data.scores.get("models"):
        return None
    what = _SPLITS[data.scores["split"]]
    return Section(title=f"Scores on the {what}", blocks=list(_blocks(data, what)))


def _blocks(data: ReportData, what: str) -> Iterator[Block]:
    models, level = data.scores["models"], 100 * data.scores["confidence"]
    subtitle = f"share of attempts that pass, mean over {what}, with {level:.0f} % interval"
    scored = {name: row for name, row in models.items() if "1" in row["pass_at"]}
    if scored:
        shown = [_dot(name, row["pass_at"]["1"]) for name, row in scored.items()]
        yield dots("scores", "pass@1 by model", subtitle, shown, _lines(data))
    yield _table(data, models)
    yield Paragraph(small=True, text=_remark(data, level))
    if any(len(row["pass_at"]) > 1 for row in scored.values()):
        curves = {name: _curve(row) for name, row in scored.items()}
        yield pass_at_k(curves, f"mean over {what}, unbiased estimate")
    if data.scores["pairs"]:
        yield _pairs(data)
        yield Paragraph(
            small=True,
            text=f"Paired over the tasks that both have; bootstrap over tasks ({level:.0f} %), two-sided sign-flip "
            "permutation test. p-values are not corrected for the number of comparisons.",
        )
    yield from _by_label(data, models)
    if data.scores["best"]:
        yield Paragraph(text=f"Best by pass@1 among the recipe's own policies: {data.scores['best']}.")


def _dot(name: str, rate_of: Mapping[str, float]) -> Dot:
    return Dot(label=name, value=rate_of["value"], low=rate_of["low"], high=rate_of["high"], muted=name == "solver")


def _lines(data: ReportData) -> list[tuple[str, float]]:
    """The paper's figures."""
    found = ((word, data.reference.get(key)) for word, key in _PAPER.items())
    return [
        (f"paper, {word} training: {percent(ref.value)}", ref.value)
        for word, ref in found
        if ref is not None and ref.value is not None
    ]


def _curve(row: Mapping[str, Any]) -> dict[int, float]:
    return {int(k): value["value"] for k, value in row["pass_at"].items()}


def _table(data: ReportData, models: Mapping[str, Any]) -> Table:
    published = {word: data.reference.get(key) for word, key in _PAPER.items()}
    paper = any(ref is not None and ref.value is not None for ref in published.values())
    rows = []
    for name, row in models.items():
        ref = published.get({data.before: "before", data.after: "after"}.get(name, "")) if name else None
        cells = [name, _rate(row, "1"), _most(row), str(row["tasks"]), f"{row['episodes']:,}"]
        cells += [percent(row["time_limit_rate"]), percent(row["infra_rate"]), f"{row['mean_turns']:.1f}"]
        rows.append(cells + ([percent(ref.value) if ref is not None else NOTHING] if paper else []))
    columns = ["model", "pass@1", "pass@k", "tasks", "attempts", "time-outs", "infra", "turns"]
    return Table(columns=columns + (["paper, pass@1"] if paper else []), rows=rows)


def _rate(row: Mapping[str, Any], k: str) -> str:
    found = row["pass_at"].get(k)
    return NOTHING if found is None else rate(found["value"], found["low"], found["high"])


def _most(row: Mapping[str, Any]) -> str:
    """pass@k for the largest k."""
    top = max(row["pass_at"], key=int, default="1")
    return NOTHING if top == "1" else f"k = {top}: {_rate(row, top)}"


def _remark(data: ReportData, level: float) -> str:
    text = (
        f"Intervals: bootstrap over tasks, {level:.0f} %. Time-outs: share of graded attempts that ran out of time. "
        "Infra: share of attempts lost to infrastructure, which are in no score."
    )
    if "solver" in data.scores["models"]:
        text += " The filter kept only tasks that the solver passes at times, so its score is flattered."
    sources = sorted({ref.source for key in _PAPER.values() if (ref := data.reference.get(key)) and ref.source})
    if sources:
        text += f" Paper: {'; '.join(sources)}; its tasks, harness and trainer are others than these."
    return text


def _pairs(data: ReportData) -> Table:
    rows = [
        [
            f"{pair['before']} → {pair['after']}",
            change(pair["delta"], pair["interval"]["low"], pair["interval"]["high"]),
            p_value(pair["p_value"]),
            str(pair["tasks"]),
        ]
        for pair in data.scores["pairs"]
    ]
    columns = ("models", "pass@1, percentage points", "p", "tasks")
    return Table(caption="Differences between models", columns=columns, rows=rows)


def _by_label(data: ReportData, models: Mapping[str, Any]) -> Iterator[Block]:
    """A table per dimension: the policies before and after training, where there is one, else everybody."""
    shown = [name for name in (data.before, data.after) if name in models] or list(models)[:_MOST_MODELS]
    dimensions = dict.fromkeys(dimension for name in shown for dimension in models[name]["labels"])
    for dimension in dimensions:
        found = {name: models[name]["labels"].get(dimension, {}) for name in shown}
        values = _most_tasks(found)
        rows = [
            [one_line(value), _tasks(found, value), *(_label(row, value) for row in found.values())] for value in values
        ]
        columns = (dimension, "tasks", *shown)
        yield Table(caption=f"Share of attempts that pass, by {dimension} [{_level(data)}]", columns=columns, rows=rows)
    if dimensions:
        text = "Wilson's interval, which takes attempts for independent."
        yield Paragraph(small=True, text=f"{text} At most {_MOST_LABELS} values, those with most tasks.")


def _level(data: ReportData) -> str:
    return f"{100 * data.scores['confidence']:.0f} % interval"


def _most_tasks(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    tasks = {value: row["tasks"] for rows in found.values() for value, row in rows.items()}
    return sorted(tasks, key=lambda value: (-tasks[value], value))[:_MOST_LABELS]


def _tasks(found: Mapping[str, Mapping[str, Any]], value: str) -> str:
    return str(max(rows[value]["tasks"] for rows in found.values() if value in rows))


def _label(rows: Mapping[str, Any], value: str) -> str:
    row = rows.get(value)
    return NOTHING if row is None or not row["episodes"] else rate(row["value"], row["low"], row["high"])
