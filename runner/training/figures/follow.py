"""Reading the file that ``patches/figures`` writes: new points while it grows, or all of it, by step."""

from collections.abc import Mapping
from pathlib import Path

from runner.store.jsonl import scan
from runner.training.figures.names import metric_name

Point = tuple[int, Mapping[str, float]]
"""A step and its metrics."""


class Follower:
    """Hands out each step once it is whole: when the trainer has begun to write a later one, or has ended."""

    def __init__(self, path: Path, phase: str) -> None:
        """Follows from the end of what is there: a resumed trainer appends."""
        self._path, self._phase = path, phase
        self._offset = path.stat().st_size if path.exists() else 0
        self._open: dict[int, dict[str, float]] = {}

    def new_points(self, *, ended: bool = False) -> list[Point]:
        """The steps that became whole since the last call. Raises StorageError."""
        for _, end, row in scan(self._path, self._offset):
            self._offset = end
            name = metric_name(self._phase, row["tag"])
            if name is not None:
                self._open.setdefault(row["step"], {})[name] = row["value"]
        newest = max(self._open, default=0)
        whole = sorted(step for step in self._open if ended or step < newest)
        return [(step, self._open.pop(step)) for step in whole]


def read_points(path: Path, phase: str) -> list[Point]:
    """All steps in order. A step that was trained again, because a kill threw it back, counts as it was last."""
    points: dict[int, dict[str, float]] = {}
    for _, _, row in scan(path):
        name = metric_name(phase, row["tag"])
        if name is not None:
            points.setdefault(row["step"], {})[name] = row["value"]
    return sorted(points.items())
