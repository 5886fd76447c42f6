"""The tracker that the pipeline holds: it returns at once, never raises, and warns once when tracking fails."""

import logging
import time
from collections.abc import Mapping
from typing import Literal

from runner.tracking.address import holds_run, shown
from runner.tracking.base import PhaseReport, RunInfo
from runner.tracking.mlflow.memory import Memory
from runner.tracking.mlflow.publisher import Publisher, Settings
from runner.tracking.mlflow.quiet import quiet_mlflow
from runner.tracking.mlflow.reasons import reason
from runner.tracking.mlflow.writer import Job, Writer
from runner.tracking.secrets import Secrets

_STATUS = {"done": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}
_PROGRESS_SECONDS = 3.0
_BACKLOG = 4
"""Progress is dropped while this many jobs wait: a slow server gets fewer points, not a longer queue."""
_CLOSE_SECONDS = 30.0
"""How long ``end`` waits for a store that works but is slow, on top of three requests' time-out."""

log = logging.getLogger(__name__)


class MlflowTracker:
    """Publishes to MLflow from a thread of its own. One object per run."""

    def __init__(self, *, uri: str, timeout: float = 10.0, episode_traces: int = 8) -> None:
        self._settings = Settings(uri=uri, timeout=timeout, episode_traces=episode_traces)
        self._writer = Writer(around=quiet_mlflow(timeout), failed=self._warn)
        self._publisher: Publisher | None = None
        self._begun = False
        self._warned = False
        self._last_progress: dict[str, float] = {}

    def begin(self, run: RunInfo) -> None:
        """Continue or create the parent run. Does nothing yet when the store has all of it already."""
        memory = Memory(run.folder, self._settings.uri)
        self._publisher = Publisher(settings=self._settings, run=run, memory=memory, secrets=Secrets())
        store = memory.store
        complete = store.status == "FINISHED" and run.sweep in (None, store.sweep)
        if not (complete and holds_run(self._settings.uri, store.run_id)):
            self._begin()

    def _begin(self) -> None:
        assert self._publisher is not None
        if not self._begun:
            self._begun = True
            self._writer.submit("begin the run", self._publisher.begin)

    def progress(self, phase: str, metrics: Mapping[str, float], step: int) -> None:
        """Counts of a running phase; calls within a few seconds of the last are dropped."""
        now = time.monotonic()
        publisher = self._publisher
        if publisher is None or now - self._last_progress.get(phase, -_PROGRESS_SECONDS) < _PROGRESS_SECONDS:
            return
        if self._writer.waiting >= _BACKLOG or publisher.finished(phase):
            return
        self._last_progress[phase] = now
        metrics = dict(metrics)
        self._submit(f"log the progress of {phase}", lambda: publisher.progress(phase, metrics, step))

    def curve(self, phase: str, step: int, metrics: Mapping[str, float]) -> None:
        """One training step; unlike progress, none is dropped."""
        publisher = self._publisher
        if publisher is not None and not publisher.finished(phase):
            figures = dict(metrics)
            self._submit(f"log step {step} of {phase}", lambda: publisher.training(phase, step, figures))

    def publish(self, report: PhaseReport) -> None:
        """A finished phase; nothing when this store has it already."""
        publisher = self._publisher
        if publisher is None:
            return
        publisher.reports[report.phase] = report
        if self._begun or not publisher.memory.store.published(report.phase, report.fingerprint):
            self._submit(f"publish {report.phase}", lambda: publisher.publish(report))

    def end(self, status: Literal["done", "failed", "stopped"]) -> None:
        """Close the parent run and wait, within bounds, until everything is written."""
        publisher = self._publisher
        if publisher is None:
            return
        word = _STATUS[status]
        if self._begun or publisher.memory.store.status != word:
            self._submit("close the run", lambda: publisher.end(word))
        if not self._writer.close(_CLOSE_SECONDS + 3 * self._settings.timeout):
            self._warn("publish everything in time", TimeoutError("the store is too slow"))

    def _submit(self, what: str, job: Job) -> None:
        self._begin()
        self._writer.submit(what, job)

    def _warn(self, what: str, error: Exception) -> None:
        """The one warning."""
        log.debug("tracking failed", exc_info=error)
        if self._warned:
            return
        self._warned = True
        address = shown(self._settings.uri)
        why = reason(error, self._settings.timeout)
        log.warning(
            "tracking: could not %s at %s: %s; the run goes on, run the same command again to publish",
            what,
            address,
            why,
        )
