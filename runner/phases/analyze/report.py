"""What a finished analysis tells: the shares worth comparing, a row per model and mode, and the report itself."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.report.markdown import FIGURES
from runner.schema import Config
from runner.tracking.base import PhaseReport

SUMMARY, TAXONOMY, PAGE = "summary.json", "taxonomy.json", "report"
HEADLINES = {
    "loop_failures": ("modes", "loop", "share"),
    "turn_limit": ("modes", "turn_limit", "share"),
    "command_diversity_pass": ("diversity_pass", "mean"),
    "command_diversity_fail": ("diversity_fail", "mean"),
}
"""The figures that the paper has too: metric -> where it stands in a summary."""


def report(config: Config, folder: Path, fingerprint: str) -> PhaseReport:
    found = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    names = (f"{PAGE}.html", f"{PAGE}.md", FIGURES, SUMMARY, TAXONOMY)
    return PhaseReport(
        phase="analyze",
        fingerprint=fingerprint,
        folder=folder,
        metrics=dict(_metrics(found)),
        tables={"failures": [row for one in found["sets"] for row in _rows(one)]},
        artifacts=[folder / name for name in names if (folder / name).exists()],
    )


def report_page(folder: Path) -> Path:
    """The page of a finished phase."""
    return folder / f"{PAGE}.html"


def _metrics(found: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for one in found["sets"]:
        for name, value in _headlines(one["summary"]):
            yield f"analysis/{one['metric']}/{name}", value
            if one["key"] == found["last"]:
                yield f"analysis/{name}", value
        yield f"analysis/{one['metric']}/failed", float(one["summary"]["failures"])


def _headlines(summary: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, path in HEADLINES.items():
        value: Any = summary
        for part in path:
            value = value[part]
        if value is not None:
            yield name, float(value)


def _rows(one: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for mode, counted in one["summary"]["modes"].items():
        share = counted["share"]
        yield {
            "model": one["key"],
            "mode": mode,
            "episodes": counted["count"],
            "share": None if share is None else round(share, 4),
        }
