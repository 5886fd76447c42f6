"""What a finished generate phase tells: the attrition table, rounds, cost."""

from collections import Counter
from pathlib import Path
from typing import Any

from runner.phases.generate.draw import DrawRecord
from runner.phases.generate.reasons import MEANING, Reason
from runner.phases.generate.tasks import RECORDS
from runner.phases.spending import spend_metrics
from runner.schema import Config
from runner.store.jsonl import read_lines
from runner.tracking.base import DatasetRef, PhaseReport


def records(folder: Path) -> list[DrawRecord]:
    """Every draw's end, in order."""
    return [DrawRecord.from_plain(row) for row in read_lines(folder / RECORDS)]


def attrition(ended: list[DrawRecord]) -> list[dict[str, Any]]:
    """One row a reason that occurred, in the order of the gates: reason, draws, share, meaning, example."""
    counts = Counter(record.reason for record in ended)
    examples = {record.reason: record for record in reversed(ended)}
    return [
        {
            "reason": reason.value,
            "draws": counts[reason],
            "share": round(counts[reason] / len(ended), 4),
            "meaning": MEANING[reason],
            "example": f"draw {examples[reason].draw}",
        }
        for reason in Reason
        if counts[reason]
    ]


def report(config: Config, folder: Path, fingerprint: str) -> PhaseReport:
    ended = records(folder)
    kept = [record for record in ended if record.reason is Reason.KEPT]
    counts = Counter(record.reason for record in ended)
    spent = [record.spend for record in ended]
    metrics = {
        "generate/draws": float(len(ended)),
        "generate/kept": float(len(kept)),
        "generate/keep_rate": len(kept) / len(ended) if ended else 0.0,
        "generate/repaired": float(sum(any(n > 1 for n in r.rounds.values()) for r in kept)),
        **spend_metrics("generate", config.models.generator, config.prices, spent),
        **{f"generate/dropped/{reason}": float(counts[reason]) for reason in Reason if reason is not Reason.KEPT},
    }
    return PhaseReport(
        phase="generate",
        fingerprint=fingerprint,
        folder=folder,
        metrics=metrics,
        tables={"attrition": attrition(ended), "draws": [_row(record) for record in ended]},
        datasets=[DatasetRef(name="tasks", digest=fingerprint, source=folder / "tasks", rows=len(kept))],
    )


def _row(record: DrawRecord) -> dict[str, Any]:
    rounds = {f"rounds_{name}": record.rounds.get(name, 0) for name in ("describe", "environment", "final")}
    labels = {f"label_{name}": value for name, value in record.labels.items()}
    return {"draw": record.draw, "reason": record.reason.value, "task": record.task_id, **rounds, **labels}
