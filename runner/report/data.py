"""What a report is made of. phases/analyze fills it in from the folders of finished phases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.analysis.failures import FailureSummary
from runner.analysis.taxonomy import TaxonomyReport
from runner.domain.episode import Episode
from runner.schema import Reference

Row = Mapping[str, Any]
Points = Sequence[tuple[int, Mapping[str, float]]]


@dataclass(frozen=True, kw_only=True)
class PhaseFacts:
    """A finished phase: where its results come from and what they took."""

    name: str
    fingerprint: str
    upstream: Sequence[str]
    finished: str
    """Day and minute, UTC."""
    seconds: float
    metrics: Mapping[str, float]
    sandbox: str = ""


@dataclass(frozen=True, kw_only=True)
class BenchScore:
    """A model's trials on a benchmark that Harbor runs."""

    model: str
    harness: str
    tasks: int
    trials: int
    """Graded ones."""
    infra: int
    value: float
    """Mean over tasks of their pass rates."""
    low: float
    high: float
    role: str = ""
    """``before`` or ``after`` where the paper has a figure for what this model is to its recipe."""


@dataclass(frozen=True, kw_only=True)
class FailureSet:
    """Analysed episodes of one model on one set of tasks."""

    key: str
    """``solver``, ``ppo``, ``terminalbench/endless/ppo``."""
    title: str
    summary: FailureSummary


@dataclass(frozen=True, kw_only=True)
class Example:
    """A failed episode worth reading."""

    model: str
    mode: str
    instruction: str
    episode: Episode


@dataclass(frozen=True, kw_only=True)
class ReportData:
    """A run. What it does not have is empty, and has no section."""

    name: str
    description: str
    settings: Sequence[tuple[str, str]]
    phases: Sequence[PhaseFacts]
    tracking: str = ""
    attrition: Sequence[Row] = ()
    """Generate: reason, draws, share, meaning."""
    filtered: Sequence[Row] = ()
    """Filter: reason, tasks, share."""
    solver_tasks: Sequence[Row] = ()
    """The filter's tasks: passes, episodes, pass_rate."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """``dev/scores.json``."""
    before: str = ""
    after: str = ""
    """The models that the paper calls before and after training."""
    bench: Sequence[BenchScore] = ()
    bench_name: str = ""
    failures: Sequence[FailureSet] = ()
    last: str = ""
    """The key of the set that the recipe ends with."""
    examples: Sequence[Example] = ()
    taxonomy: TaxonomyReport | None = None
    curves: Mapping[str, Points] = field(default_factory=dict)
    deviations: Sequence[str] = ()
    reference: Mapping[str, Reference] = field(default_factory=dict)
