"""What a finished dataset phase tells."""

import json
from pathlib import Path

from runner.schema import Config
from runner.tracking.base import DatasetRef, PhaseReport


def report(config: Config, folder: Path, fingerprint: str) -> PhaseReport:
    split = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    train, dev, refused = split["train"], split["dev"], split["refused"]
    return PhaseReport(
        phase="dataset",
        fingerprint=fingerprint,
        folder=folder,
        metrics={
            "dataset/train": float(len(train)),
            "dataset/dev": float(len(dev)),
            "dataset/refused": float(len(refused)),
        },
        tables={"split": [{"task": task, "split": name} for name, tasks in split.items() for task in tasks]},
        artifacts=[folder / "split.json"],
        datasets=[
            DatasetRef(name="train", digest=fingerprint, source=folder / "tasks", rows=len(train)),
            DatasetRef(name="dev", digest=fingerprint, source=folder / "tasks", rows=len(dev), context="evaluation"),
        ],
    )
