"""A run in a few lines of Markdown, shown as its description in MLflow."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.tracking.base import PhaseReport, RunInfo

_HEADLINES = 7
"""Figures per phase; all of them are metrics of the run."""
_FIRST = (r"draws|tasks|train", r"kept|dev", r"pass_at_\d+", r"reward", r"dollars|cost.*")
_ROWS = 15
_COLUMNS = 4


def describe(run: RunInfo, reports: Iterable[PhaseReport]) -> str:
    """Description, phases with their main figures, and the attrition table if a phase made one."""
    reports = list(reports)
    parts = [str(run.config.get("description") or "").strip(), _phases(reports)]
    parts += [_table("Attrition", report.tables["attrition"]) for report in reports if report.tables.get("attrition")]
    parts.append(f"Run again, or look closer, on the machine that made it: `endless show {run.folder.name}`")
    return "\n\n".join(part for part in parts if part)


def _phases(reports: Sequence[PhaseReport]) -> str:
    if not reports:
        return "No phase is finished yet."
    rows = [f"| {r.phase} | {_figures(r)} | `{r.fingerprint[:8]}` |" for r in reports]
    return "\n".join(["| phase | result | fingerprint |", "| --- | --- | --- |", *rows])


def _figures(report: PhaseReport) -> str:
    """The figures people ask for first, without the phase's name; then others, in the phase's own order."""
    named = {name.removeprefix(f"{report.phase}/"): value for name, value in report.metrics.items()}
    ranked = sorted(named, key=_rank)[:_HEADLINES]
    return " · ".join(f"{name.replace('_', ' ')} **{_number(named[name])}**" for name in ranked)


def _rank(name: str) -> int:
    """Position of the first pattern that a metric's name matches."""
    return next((i for i, pattern in enumerate(_FIRST) if re.fullmatch(pattern, name)), len(_FIRST))


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(rows[0])[:_COLUMNS]
    lines = ["| " + " | ".join(_cell(row.get(column, "")) for column in columns) + " |" for row in rows[:_ROWS]]
    head = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    return "\n".join([f"**{title}**", "", *head, *lines])


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")
