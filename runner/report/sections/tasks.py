"""What became of the draws, and how hard the tasks are."""

from collections.abc import Iterator

from runner.report.data import ReportData
from runner.report.document import Block, Section, Table
from runner.report.figures.tasks import attrition, difficulty
from runner.report.text import percent, words


def section(data: ReportData) -> Section | None:
    """None where nothing was drawn."""
    blocks = list(_blocks(data))
    return Section(title="Tasks", blocks=blocks) if blocks else None


def _blocks(data: ReportData) -> Iterator[Block]:
    if data.attrition:
        yield attrition(list(_bars(data)), "in the order of the gates, then what the filter kept")
        yield Table(
            caption="Draws",
            columns=("reason", "what it means", "draws", "share"),
            rows=[_row(row) for row in data.attrition],
            texts=2,
        )
    if data.filtered:
        rows = [[row["reason"], str(row["tasks"]), percent(row["share"])] for row in data.filtered]
        yield Table(caption="Filter", columns=("reason", "tasks", "share"), rows=rows)
    if graded := [(row["passes"], row["episodes"]) for row in data.solver_tasks if row["episodes"]]:
        yield difficulty(graded)


def _row(row: object) -> list[str]:
    return [words(row["reason"]), row["meaning"], str(row["draws"]), percent(row["share"])]  # type: ignore[index]


def _bars(data: ReportData) -> Iterator[tuple[str, int, str]]:
    draws = sum(row["draws"] for row in data.attrition)
    yield "drawn", draws, "all"
    for row in data.attrition:
        if row["reason"] != "kept":
            yield words(row["reason"]), row["draws"], "lost"
    yield "verified tasks", sum(row["draws"] for row in data.attrition if row["reason"] == "kept"), "kept"
    for row in data.filtered:
        if row["reason"] != "kept":
            yield f"filter: {row['reason']}", row["tasks"], "lost"
    if data.filtered:
        yield "kept by the filter", sum(row["tasks"] for row in data.filtered if row["reason"] == "kept"), "kept"
