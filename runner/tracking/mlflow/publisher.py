"""Writes one run to one store. Lives in the writer thread and raises freely: ``tracker`` turns that into a warning."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.tracking.address import artifact_root, require_reachable
from runner.tracking.base import PhaseReport, RunInfo
from runner.tracking.mlflow import runs as names
from runner.tracking.mlflow import traces
from runner.tracking.mlflow.machine import Machine
from runner.tracking.mlflow.memory import Memory, PhaseMemory
from runner.tracking.mlflow.models import register
from runner.tracking.mlflow.params import clip, flatten
from runner.tracking.mlflow.runs import Runs
from runner.tracking.mlflow.summary import describe
from runner.tracking.mlflow.tables import TABLES_TAG, dataset_input, metric_list, table_json, tables_tag
from runner.tracking.secrets import Secrets

_BATCH = 1000
"""Metrics that MLflow takes at once."""
_TAG_LIMIT = 8000
"""Characters of one tag's value in MLflow's stores."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the recipe says about tracking."""

    uri: str
    timeout: float
    """Seconds, per request."""
    episode_traces: int


@dataclass(kw_only=True)
class Publisher:
    """One run's connection. ``begin`` first; everything else after it."""

    settings: Settings
    run: RunInfo
    memory: Memory
    secrets: Secrets
    reports: dict[str, PhaseReport] = field(default_factory=dict)
    """Phases published in this process or earlier, for the run's description. The tracker's caller adds them."""
    machine: Machine = field(init=False)
    _runs: Runs | None = None
    _sweep: str = ""

    def __post_init__(self) -> None:
        self.machine = Machine(self.settings.uri)

    @property
    def runs(self) -> Runs:
        assert self._runs is not None, "begin() first"
        return self._runs

    def begin(self) -> None:
        """Connect; continue the parent run or create it."""
        require_reachable(self.settings.uri, self.settings.timeout)
        self._runs = Runs(self.settings.uri, self.run.experiment, artifact_root(self.settings.uri))
        if self.run.sweep is not None:
            self._sweep = self.runs.sweep(self.run.sweep)
            self.runs.set_status(self._sweep, "RUNNING")
        store = self.memory.store
        parent = self._known_parent()
        store.run_id = parent.info.run_id if parent else self._create_parent()
        store.status, store.sweep = "RUNNING", self.run.sweep or store.sweep
        self.memory.save()
        if parent:
            self.runs.set_status(store.run_id, "RUNNING")
            self._set_tags(store.run_id, self._parent_tags())  # a run may join a sweep later
        self._log_recipe(dict(parent.data.params) if parent else {})

    def _known_parent(self) -> Any | None:
        """This run in the store: by the remembered id, else by its key. Forgets what a wiped store has lost."""
        store = self.memory.store
        if store.run_id and (run := self.runs.get(store.run_id)):
            return run
        store.forget()
        found = [run for run in self.runs.find(names.KEY, self.run.key) if names.PHASE not in run.data.tags]
        if found:
            self._recover_phases(found[0].info.run_id)
        return found[0] if found else None

    def _recover_phases(self, parent_id: str) -> None:
        """Phases whose runs say that they were published whole."""
        for child in self.runs.find(names.PARENT, parent_id):
            phase, fingerprint = child.data.tags.get(names.PHASE), child.data.tags.get(names.FINGERPRINT)
            if phase and fingerprint:
                self.memory.store.phases[phase] = PhaseMemory(
                    run_id=child.info.run_id, fingerprint=fingerprint, published=True
                )

    def _create_parent(self) -> str:
        tags = self._parent_tags() | {names.NOTE: describe(self.run, [])}
        return self.runs.create(self.run.name, self._clean_tags(tags))

    def _parent_tags(self) -> dict[str, str]:
        tags = {"endless.recipe": self.run.experiment} | _own_names(self.run.tags) | {names.KEY: self.run.key}
        if self._sweep:
            tags |= {names.PARENT: self._sweep, names.SWEEP: self.run.sweep or ""}
        return tags

    def _clean_tags(self, tags: Mapping[str, str]) -> dict[str, str]:
        return {k: clip(self.secrets.text(str(v)), _TAG_LIMIT) for k, v in tags.items()}

    def _log_recipe(self, logged: Mapping[str, str]) -> None:
        """The recipe file and its params, once: params last, so that their presence means that both are there."""
        from mlflow.entities import Param

        run_id = self.memory.store.run_id
        if not logged and self.run.recipe.is_file():
            text = self.secrets.text(self.run.recipe.read_text(encoding="utf-8"))
            self.runs.client.log_text(run_id, text, "recipe.yaml")
        flat = flatten(self.secrets.value(self.run.config))
        self.runs.client.log_batch(run_id, params=[Param(k, v) for k, v in flat.items() if k not in logged])

    def _summarise(self) -> None:
        """The parent's description, and which of its artifacts are tables, from all reports known so far."""
        reports = list(self.reports.values())
        tables = [f"{report.phase}/{name}.json" for report in reports for name in report.tables]
        told = {key: value for report in reports for key, value in _own_names(report.tags).items()}
        tags = {**told, names.NOTE: describe(self.run, reports), TABLES_TAG: tables_tag(tables)}
        self._set_tags(self.memory.store.run_id, tags)

    def finished(self, phase: str) -> bool:
        """Whether the store has a whole phase of this name, of whatever fingerprint."""
        known = self.memory.store.phases.get(phase)
        return known is not None and known.published

    def progress(self, phase: str, metrics: Mapping[str, float], step: int) -> None:
        """Metrics of a running phase, on its child run; nothing while the store has finished results of this phase."""
        if self.finished(phase):
            return
        child = self._child(phase)
        child.step = max(step, child.step + 1)
        self.runs.client.log_batch(child.run_id, metrics=metric_list(metrics, child.step, _now()))
        self.memory.save()

    def curve(self, phase: str, points: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Training steps on the phase's child run, those that are not there yet."""
        child = self._child(phase)
        now = _now()
        rows = [metric for step, figures in points if step > child.curve for metric in metric_list(figures, step, now)]
        for start in range(0, len(rows), _BATCH):
            self.runs.client.log_batch(child.run_id, metrics=rows[start : start + _BATCH])
        child.curve = max([child.curve, *(step for step, _ in points)])
        self.memory.save()

    def _child(self, phase: str, seconds: float = 0.0) -> PhaseMemory:
        """The phase's unfinished child run; a new one when there is none, or when it belongs to earlier results."""
        known = self.memory.store.phases.get(phase)
        if known is not None and not known.published:
            return known  # cut short earlier, or begun by its progress
        tags = {names.PARENT: self.memory.store.run_id, names.PHASE: phase, names.KEY: self.run.key}
        start = _now() - int(seconds * 1000)
        child = PhaseMemory(run_id=self.runs.create(phase, self._clean_tags(tags), start))
        self.memory.store.phases[phase] = child
        self.memory.save()
        return child

    def training(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """One step of a training that is under way; the machine is watched meanwhile."""
        self.curve(phase, [(step, figures)])
        self.machine.watch(self._child(phase).run_id)

    def publish(self, report: PhaseReport) -> None:
        """A finished phase, whole: its child run, and its figures on the parent. Remembered only when all is there."""
        self.machine.rest()
        if self.memory.store.published(report.phase, report.fingerprint):
            return
        child = self._child(report.phase, report.metrics.get(f"{report.phase}/seconds", 0.0))
        self._log_content(report, child)
        self.curve(report.phase, report.curves)
        self._log_metrics(report, child)
        if report.model is not None:
            register(self.runs.client, report.model, child.run_id, self._clean_tags(report.model.tags))
        self._log_traces(report, child)
        self.runs.set_status(child.run_id, "FINISHED")
        self._set_tags(child.run_id, {names.FINGERPRINT: report.fingerprint})
        self._summarise()
        child.fingerprint, child.published = report.fingerprint, True
        self.memory.save()

    def _set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        self.runs.client.log_batch(run_id, tags=[RunTag(k, v) for k, v in self._clean_tags(tags).items()])

    def _log_content(self, report: PhaseReport, child: PhaseMemory) -> None:
        """Tables, artifacts and datasets; tables and datasets on the parent as well."""
        client, parent_id = self.runs.client, self.memory.store.run_id
        for name, rows in report.tables.items():
            text = table_json([self.secrets.row(row) for row in rows])
            client.log_text(child.run_id, text, f"{name}.json")
            client.log_text(parent_id, text, f"{report.phase}/{name}.json")
        for path in report.artifacts:
            if path.is_dir():
                client.log_artifacts(child.run_id, str(path), path.name)
            elif path.is_file():
                client.log_artifact(child.run_id, str(path))
        if report.datasets:
            inputs = [dataset_input(ref) for ref in report.datasets]
            client.log_inputs(child.run_id, datasets=inputs)
            client.log_inputs(parent_id, datasets=inputs)

    def _log_metrics(self, report: PhaseReport, child: PhaseMemory) -> None:
        """One batch for the child, one for the parent. The child has what its curves end with already."""
        from mlflow.entities import Param, RunTag

        client, now = self.runs.client, _now()
        drawn = {name for _, figures in report.curves for name in figures}
        own = {name: value for name, value in report.metrics.items() if name not in drawn}
        child.step = max(child.step + 1, child.curve)
        tags = self._clean_tags(_own_names(report.tags))
        tags[TABLES_TAG] = tables_tag([f"{name}.json" for name in report.tables])
        params = [Param("phase", report.phase), Param("fingerprint", report.fingerprint)]
        client.log_batch(
            child.run_id,
            metrics=metric_list(own, child.step, now),
            params=params,
            tags=[RunTag(k, v) for k, v in tags.items()],
        )
        client.log_batch(self.memory.store.run_id, metrics=metric_list(report.metrics, 0, now))

    def _log_traces(self, report: PhaseReport, child: PhaseMemory) -> None:
        place = traces.Place(
            uri=self.settings.uri,
            experiment_id=self.runs.experiment_id,
            run_id=child.run_id,
            parent_id=self.memory.store.run_id,
        )
        traces.write(report.episodes[: self.settings.episode_traces], place, self.secrets)

    def end(self, status: str) -> None:
        """Close the parent, the sweep and whatever phase was cut short. ``status`` is MLflow's word."""
        store = self.memory.store
        self.machine.rest()
        if self.reports:
            self._summarise()
        for child in store.phases.values():
            if not child.published:
                self.runs.set_status(child.run_id, "FAILED" if status == "FAILED" else "KILLED")
        self.runs.set_status(store.run_id, status)
        if self._sweep:
            self.runs.set_status(self._sweep, "FINISHED")
        store.status = status
        self.memory.save()


def _own_names(tags: Mapping[str, str]) -> dict[str, str]:
    """Tags under our prefix, the empty ones left out."""
    return {k if "." in k else f"endless.{k}": v for k, v in tags.items() if v}


def _now() -> int:
    return time.time_ns() // 1_000_000
