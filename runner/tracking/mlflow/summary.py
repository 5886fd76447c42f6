"""A run in a few lines of Markdown, shown as its description in MLflow."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runner.tracking.base import PhaseReport, RunInfo

_HEADLINES = 7
"""Figures per phase; all of them are metrics of the run."""
_FIRST = (r"draws|tasks|train", r"kept|dev", r"pass_at_\d+", r"reward", r"dollars|cost.*")
_ROWS = 15


def describe(run: RunInfo, reports: Iterable[PhaseReport]) -> str:
    """What the recipe says it is, then a line per phase with its main figures and where its items went.

    Lists, no tables: MLflow's page sets a table's columns without space between them.
    """
    phases = [line for report in reports for line in _phase(report)]
    parts = [
        str(run.config.get("description") or "").strip(),
        "\n".join(phases) or "No phase is finished yet.",
        f"Look closer on the machine that made it: `endless show run {run.folder.name}`",
    ]
    return "\n\n".join(part for part in parts if part)


def _phase(report: PhaseReport) -> list[str]:
    lines = [f"- **{report.phase}**: {_figures(report)}"]
    if rows := report.tables.get("attrition"):
        lines.append(f"  - attrition: {_counts(rows)}")
    return lines


def _counts(rows: Sequence[Mapping[str, Any]]) -> str:
    """The first two columns, a reason and how many."""
    pairs = [[str(value).replace("\n", " ") for value in list(row.values())[:2]] for row in rows[:_ROWS]]
    return " · ".join(" ".join(pair).replace("_", " ") for pair in pairs)


def _figures(report: PhaseReport) -> str:
    """The figures people ask for first, without the phase's name; then others, in the phase's own order.

    Breakdowns (``dropped/leak``) are left to the metrics.
    """
    named = {name.removeprefix(f"{report.phase}/"): value for name, value in report.metrics.items()}
    ranked = sorted((name for name in named if "/" not in name), key=_rank)[:_HEADLINES]
    return " · ".join(f"{name.replace('_', ' ')} **{_number(named[name])}**" for name in ranked)


def _rank(name: str) -> int:
    """Position of the first pattern that a metric's name matches."""
    return next((i for i, pattern in enumerate(_FIRST) if re.fullmatch(pattern, name)), len(_FIRST))


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.3g}"
