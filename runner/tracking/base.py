"""The seam between a run and where runs are compared.

Tracking is a projection of what is on disk: a finished phase leaves a ``PhaseReport`` beside its results, and a tracker
publishes it. So a dead server costs a warning and never a run, and pointing a recipe at another server publishes
everything again without running anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from runner.domain.episode import Episode

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """One ``endless run``: the parent of its phases' runs."""

    experiment: str
    name: str
    """Shown in the UI: ``quickstart-4f2a91c0``."""
    key: str
    """Equal for the same recipe and overrides; a resumed run continues the tracker's run of this key."""
    config: Mapping[str, Any]
    """The resolved recipe, nested; a tracker flattens it into params."""
    recipe: Path
    """The frozen recipe file."""
    folder: Path
    """The run's folder, where a tracker may keep its own state."""
    tags: Mapping[str, str] = field(default_factory=dict)
    sweep: str | None = None
    """Variants of one sweep share this name and become siblings under one run."""


@dataclass(frozen=True, kw_only=True)
class DatasetRef:
    """A dataset a phase made or read, as MLflow's dataset input."""

    name: str
    digest: str
    """The fingerprint."""
    source: Path
    rows: int
    context: Literal["training", "evaluation"] = "training"


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A trained model, for MLflow's registry: by reference, its weights stay where they are."""

    name: str
    """``endless-<recipe>-<phase>``."""
    path: Path
    """A folder in the Hugging Face format."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Its lineage: recipe, dataset fingerprint, what it was trained from."""


@dataclass(frozen=True, kw_only=True)
class PhaseReport:
    """What is worth comparing about a finished phase."""

    phase: str
    fingerprint: str
    folder: Path
    metrics: Mapping[str, float]
    """Fixed names, equal in every run: ``generate/kept``, ``filter/pass_at_1``."""
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """Name -> rows: ``attrition``."""
    artifacts: Sequence[Path] = ()
    """Small files worth keeping with the run."""
    episodes: Sequence[Episode] = ()
    """A sample, to become traces."""
    datasets: Sequence[DatasetRef] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    curves: Sequence[tuple[int, Mapping[str, float]]] = ()
    """Training steps in order, each with its metrics."""
    model: ModelRef | None = None


class Tracker(Protocol):
    """Publishes runs. No method raises: trouble is logged as one warning and tracking goes quiet for this run."""

    def begin(self, run: RunInfo) -> None:
        """Create or continue the parent run."""

    def progress(self, phase: str, metrics: Mapping[str, float], step: int) -> None:
        """Counts of a running phase, at most every few seconds."""

    def curve(self, phase: str, step: int, metrics: Mapping[str, float]) -> None:
        """One step of a training that is under way. None is dropped; a step that is there already is not repeated."""

    def publish(self, report: PhaseReport) -> None:
        """Log a finished phase as a child run. Publishing twice changes nothing."""

    def end(self, status: Literal["done", "failed", "stopped"]) -> None:
        """Close the parent run and flush."""


class NullTracker:
    """Tracks nothing: ``tracking.enabled: false``."""

    def begin(self, run: RunInfo) -> None: ...

    def progress(self, phase: str, metrics: Mapping[str, float], step: int) -> None: ...

    def curve(self, phase: str, step: int, metrics: Mapping[str, float]) -> None: ...

    def publish(self, report: PhaseReport) -> None: ...

    def end(self, status: Literal["done", "failed", "stopped"]) -> None: ...
