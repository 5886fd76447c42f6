"""Run a compiled recipe: each phase that is not done yet, in order."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal

from runner.domain.episode import Outcome
from runner.domain.errors import StorageError
from runner.phases.base import Context, Watcher
from runner.phases.work import Stopped
from runner.pipeline.compile import Step, compile_recipe, run_key
from runner.pipeline.layout import Outputs, RunFolder
from runner.pipeline.resources import RunResources, check_requirements, load_sdks
from runner.schema import Config
from runner.store.artifacts import Store
from runner.store.jsonl import write_json
from runner.tracking.base import PhaseReport, RunInfo, Tracker

log = logging.getLogger(__name__)

ATTEMPTS = "attempts.json"
Status = Literal["done", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the composer hands over: the typed recipe and its plain forms."""

    config: Config
    plain: dict[str, Any]
    """The resolved recipe as nested plain values."""
    text: str
    """The same as YAML, to be frozen."""
    name: str
    """As asked for: ``paper/qwen2.5-7b``."""
    variant: str = ""
    """A sweep variant's overrides."""
    sweep: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A finished run."""

    folder: RunFolder
    steps: Sequence[Step]
    reports: Sequence[PhaseReport]
    ran: Sequence[str]
    """The phases that were not done before."""
    backend: str


def run_recipe(recipe: Recipe, *, watcher: Watcher, tracker: Tracker, stop: Event) -> RunResult:
    """Run what is not done. Raises what phases raise; a later call goes on where this one ended."""
    config = recipe.config
    steps = compile_recipe(config)
    outputs = Outputs(Path(config.outputs).absolute())
    folder = outputs.run(config, steps)
    todo = [step.name for step in steps if not outputs.store.is_done(step.name, step.fingerprint)]
    check_requirements(config, todo)
    folder.freeze(recipe.text)
    load_sdks(config, todo)
    with ExitStack() as stack:
        resources = stack.enter_context(RunResources(config, outputs, folder, stop))
        run = _Run(recipe, steps, outputs, folder, resources, _Watchers(watcher, tracker), tracker, stop)
        tracker.begin(run.info())
        return run.go(todo)


class _Run:
    """The state of one ``run_recipe``."""

    def __init__(
        self,
        recipe: Recipe,
        steps: Sequence[Step],
        outputs: Outputs,
        folder: RunFolder,
        resources: RunResources,
        watcher: Watcher,
        tracker: Tracker,
        stop: Event,
    ) -> None:
        self._recipe, self._config = recipe, recipe.config
        self._steps = steps
        self._outputs, self._folder = outputs, folder
        self._resources = resources
        self._watcher, self._tracker = watcher, tracker
        self._stop = stop

    def info(self) -> RunInfo:
        key = run_key(self._config, self._steps)
        return RunInfo(
            experiment=self._config.tracking.experiment or self._config.name,
            name=self._folder.path.name + (f" {self._recipe.variant}" if self._recipe.variant else ""),
            key=key,
            config=self._recipe.plain,
            recipe=self._folder.recipe,
            folder=self._folder.path,
            tags={"endless.recipe": self._recipe.name, "endless.variant": self._recipe.variant},
            sweep=self._recipe.sweep,
        )

    def go(self, todo: list[str]) -> RunResult:
        store = self._outputs.store
        self._folder.write_state("running", self._steps, store)
        try:
            reports = [self._step(step, store) for step in self._steps]
        except KeyboardInterrupt:  # a second Ctrl-C: nobody waits for the tracker
            self._folder.write_state("stopped", self._steps, store)
            raise
        except BaseException as caught:
            with suppress(StorageError):  # the cause is worth telling, not that it could not be written down
                status: Status = "stopped" if isinstance(caught, Stopped) else "failed"
                self._close(status, str(caught) or type(caught).__name__)
            raise
        self._close("done")
        return RunResult(
            folder=self._folder,
            steps=self._steps,
            reports=reports,
            ran=todo,
            backend=self._resources.backend_name,
        )

    def _close(self, status: Status, error: str = "") -> None:
        self._tracker.end(status)
        self._folder.write_state(status, self._steps, self._outputs.store, error)

    def _step(self, step: Step, store: Store) -> PhaseReport:
        with store.work(step.name, step.fingerprint) as folder:
            if folder is not None:
                self._run_phase(step, folder)
        final = store.folder(step.name, step.fingerprint)
        report = read_report(step, self._config, final)
        self._tracker.publish(report)
        return report

    def _run_phase(self, step: Step, folder: Path) -> None:
        log.debug("phase %s %s in %s", step.name, step.fingerprint, folder)
        lineage = {"phase": step.name, "fingerprint": step.fingerprint, "version": step.phase.version}
        reads = step.phase.reads(self._config)
        write_json(folder / "phase.json", {**lineage, "upstream": dict(step.upstream), "reads": reads})
        context = Context(
            config=self._config,
            folder=folder,
            upstream={name: self._outputs.store.folder(name, mark) for name, mark in step.upstream.items()},
            resources=self._resources,
            watcher=self._watcher,
            stop=self._stop,
            cache=self._outputs.cache,
            run_label=self._folder.path.name,
        )
        began = time.monotonic()
        try:
            step.phase.run(context)
        except BaseException:
            with suppress(StorageError):  # as above
                self._note_attempt(folder, time.monotonic() - began)
            raise
        self._note_attempt(folder, time.monotonic() - began)

    def _note_attempt(self, folder: Path, seconds: float) -> None:
        """Keep what the results themselves do not tell: working time over all attempts, and the kind of sandbox."""
        before = read_attempts(folder)
        sandbox = self._resources.backend_name or before["sandbox"]
        write_json(folder / ATTEMPTS, {"seconds": round(before["seconds"] + seconds, 3), "sandbox": sandbox})


def read_report(step: Step, config: Config, folder: Path) -> PhaseReport:
    """A finished phase's report, with its working time and its kind of sandbox."""
    report = step.phase.report(config, folder, step.fingerprint)
    attempts = read_attempts(folder)
    metrics = {**report.metrics, f"{step.name}/seconds": attempts["seconds"]}
    tags = {**report.tags, "endless.sandbox": attempts["sandbox"]} if attempts["sandbox"] else report.tags
    return replace(report, metrics=metrics, tags=tags)


def read_attempts(folder: Path) -> dict[str, Any]:
    """Seconds of work and the sandbox of a phase, as noted so far."""
    path = folder / ATTEMPTS
    nothing = {"seconds": 0.0, "sandbox": ""}
    return nothing | json.loads(path.read_text(encoding="utf-8")) if path.exists() else nothing


class _Watchers:
    """Tells the console and the tracker how far a phase is."""

    def __init__(self, console: Watcher, tracker: Tracker) -> None:
        self._console, self._tracker = console, tracker
        self._counts: dict[str, float] = {}

    def begin(self, phase: str, total: int, done: int) -> None:
        self._counts = {"ended": float(done)} | {outcome.value: 0.0 for outcome in Outcome}
        self._console.begin(phase, total, done)

    def advance(self, phase: str, outcome: Outcome, label: str) -> None:
        self._counts["ended"] += 1
        self._counts[outcome.value] += 1
        self._console.advance(phase, outcome, label)
        metrics = {f"{phase}/progress/{name}": count for name, count in self._counts.items()}
        self._tracker.progress(phase, metrics, step=int(self._counts["ended"]))

    def figures(self, phase: str, step: int, metrics: Mapping[str, float]) -> None:
        self._console.figures(phase, step, metrics)
        self._tracker.curve(phase, step, metrics)

    def end(self, phase: str) -> None:
        self._console.end(phase)
