"""The draws as the taxonomy report wants them: labels, whether the task stayed, and how often it was solved."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.analysis.taxonomy import Draw, TaxonomyReport, taxonomy_report
from runner.phases.filter.report import TASKS
from runner.phases.generate.reasons import Reason
from runner.phases.generate.tasks import RECORDS
from runner.schema import Config
from runner.store.jsonl import read_lines


def taxonomy_of(config: Config, upstream: Mapping[str, Path], *, level: float, seed: int) -> TaxonomyReport | None:
    """None where nothing was drawn. Without a filter, a verified task counts as kept."""
    if "generate" not in upstream:
        return None
    return taxonomy_report(list(_draws(upstream)), _weights(config), level=level, seed=seed)


def _draws(upstream: Mapping[str, Path]) -> Iterator[Draw]:
    filtered = {row["task_id"]: row for row in read_lines(upstream["filter"] / TASKS)} if "filter" in upstream else {}
    for row in read_lines(upstream["generate"] / RECORDS):
        verified = row["reason"] == Reason.KEPT
        tried = filtered.get(row["task_id"], {}) if verified else {}
        yield Draw(
            labels=row["labels"],
            kept=bool(tried.get("kept")) if "filter" in upstream else verified,
            passes=tried.get("passes", 0),
            episodes=tried.get("episodes", 0),
        )


def _weights(config: Config) -> dict[str, dict[str, float]]:
    """Those of dimensions that are drawn from; a fixed one has no choice."""
    found = config.taxonomy.dimensions
    return {name: dict(one.values) for name, one in found.items() if one is not None and one.fixed is None}
