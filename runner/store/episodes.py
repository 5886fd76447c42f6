"""Episodes as JSON lines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.store.jsonl import read_lines


def read_episodes(path: Path) -> Iterator[Episode]:
    """Every episode of a file, streamed."""
    return map(episode_of, read_lines(path))


def episode_of(row: Mapping[str, Any]) -> Episode:
    """The inverse of ``plain(episode)``."""
    typed = {
        "outcome": Outcome(row["outcome"]),
        "end": EndReason(row["end"]),
        "turns": tuple(Turn(**turn) for turn in row["turns"]),
    }
    return Episode(**{**row, **typed})
