"""What n episodes say about a task."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from runner.domain.episode import Outcome
from runner.grading.passk import pass_at_k


@dataclass(frozen=True, kw_only=True)
class EpisodeFacts:
    """The few facts of an episode that summaries need; the rest stays on disk."""

    task_id: str
    sample: int
    outcome: Outcome
    end: str
    turns: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TaskSummary:
    """One task's episodes, counted. Episodes lost to infrastructure are in no estimate."""

    task_id: str
    episodes: int
    """Graded episodes."""
    passes: int
    """Among all graded episodes."""
    estimate_n: int
    """Graded episodes that pass@k is estimated from: all, or with early stopping the first ones."""
    estimate_passes: int
    infra: int
    mean_turns: float
    ends: Mapping[str, int]
    """End reason -> episodes."""

    @property
    def pass_rate(self) -> float:
        return self.estimate_passes / self.estimate_n if self.estimate_n else 0.0

    def pass_at(self, k: int) -> float:
        """Unbiased pass@k; 0.0 when fewer than k graded episodes exist."""
        return pass_at_k(self.estimate_n, self.estimate_passes, k) if self.estimate_n >= k else 0.0


def summarise(task_id: str, facts: Iterable[EpisodeFacts], early_stop: int | None) -> TaskSummary:
    """Count one task's episodes."""
    ordered = sorted(facts, key=lambda f: f.sample)
    graded = [f for f in ordered if f.outcome is not Outcome.INFRA]
    counted = graded if early_stop is None else [f for f in graded if f.sample < early_stop]
    return TaskSummary(
        task_id=task_id,
        episodes=len(graded),
        passes=_passes(graded),
        estimate_n=len(counted),
        estimate_passes=_passes(counted),
        infra=len(ordered) - len(graded),
        mean_turns=fmean(f.turns for f in graded) if graded else 0.0,
        ends=dict(sorted(Counter(f.end for f in ordered).items())),
    )


def _passes(facts: Iterable[EpisodeFacts]) -> int:
    return sum(f.outcome is Outcome.PASS for f in facts)


def facts_of(row: Mapping[str, Any]) -> EpisodeFacts:
    """Read the facts out of a stored episode."""
    return EpisodeFacts(
        task_id=row["task_id"],
        sample=row["sample"],
        outcome=Outcome(row["outcome"]),
        end=row["end"],
        turns=len(row["turns"]),
        seconds=row["seconds"],
    )
