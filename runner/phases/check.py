"""The work behind ``endless tasks check``: is a task, ours or anyone's, sound?

Sound is: its environment builds, its initial test passes there, its final test (or an imported verifier's script) fails
there, and passes once the oracle (if there is one) has run. Each of the three runs in a sandbox of its own.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from runner.domain.episode import Outcome
from runner.domain.errors import (
    EngineError,
    EngineGone,
    InfraError,
    MissingRequirement,
    StorageError,
    TaskFormatError,
    UserError,
)
from runner.domain.task import Task
from runner.grading.dockerfile import last_user
from runner.grading.grade import grade
from runner.grading.oracle import run_oracle
from runner.grading.verify import Reason, Verdict, verify
from runner.sandbox.base import Backend, BuildFailure, Image, Role
from runner.sandbox.outage import Outages
from runner.store.tasks import find_tasks, read_task

log = logging.getLogger(__name__)

T = TypeVar("T")

ENGINE_SECONDS = 60.0
"""How long a check waits for an engine that has gone away."""
_TAIL = 500
"""Characters of a log that a reason quotes."""
_RIGHT_FAILURES = (Reason.ASSERTION, Reason.ERROR, Reason.FIXTURE_ERROR, Reason.LOW_REWARD)
"""How a final test may fail where nothing was done. Others' tests often open a file that is not there yet."""
_MISSING_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([^']+)'")


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """What was found. Each step holds its own outcome, or None when it was not reached or the task has no such part."""

    id: str
    build: Outcome | None = None
    initial: Outcome | None = None
    final: Outcome | None = None
    """The final test's outcome on the untouched environment: ``fail`` is right."""
    oracle: Outcome | None = None
    """The final test's outcome after the oracle: ``pass`` is right."""
    outcome: Outcome
    seconds: float
    reason: str = ""
    """What is wrong, step by step; empty when nothing is."""

    def row(self) -> dict[str, Any]:
        """The JSON object of ``--json``."""
        steps = {name: getattr(self, name) for name in ("build", "initial", "final", "oracle")}
        values = {name: None if outcome is None else outcome.value for name, outcome in steps.items()}
        return {
            "id": self.id,
            **values,
            "outcome": self.outcome.value,
            "seconds": round(self.seconds, 2),
            "reason": self.reason,
        }


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How often infrastructure trouble is met with another try."""

    tries: int = 3
    backoff_seconds: float = 1.0
    outages: Outages = field(default_factory=lambda: Outages(ENGINE_SECONDS))

    def call(self, work: Callable[[], T]) -> T:
        """Run ``work``; retried with doubling delays, once the engine is back if it had gone. Raises the last
        InfraError."""
        for trial in range(1, self.tries):
            try:
                return work()
            except StorageError:
                raise
            except InfraError as error:
                if isinstance(error, EngineGone) and not self.outages.wait(error, Event()):
                    raise
                time.sleep(self.backoff_seconds * 2 ** (trial - 1))
        return work()


def check_paths(
    paths: Iterable[Path], backend: Backend, *, concurrency: int = 4, patience: Patience = Patience()
) -> Iterator[CheckResult]:
    """Check every task at or below the paths, ``concurrency`` at once; results come in the order of the paths.

    Raises UserError for a path without tasks, before anything is built. Who leaves early leaves checks at work behind,
    which end when the backend is closed.
    """
    folders = [folder for path in paths for folder in _tasks_below(path)]

    def check(folder: Path) -> CheckResult:
        return check_folder(folder, backend, patience=patience)

    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="check")
    try:
        queue = iter(folders)
        hand: deque[Future[CheckResult]] = deque(pool.submit(check, f) for f in islice(queue, 2 * concurrency))
        while hand:
            yield hand.popleft().result()
            hand.extend(pool.submit(check, folder) for folder in islice(queue, 1))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def check_folder(folder: Path, backend: Backend, *, patience: Patience = Patience()) -> CheckResult:
    """Check the task in a folder. A folder that cannot be read as one is a failed task, with the reason."""
    try:
        task = read_task(folder)
    except TaskFormatError as error:
        return CheckResult(id=folder.name, outcome=Outcome.FAIL, seconds=0.0, reason=str(error))
    return check_task(task, backend, patience=patience)


def check_task(task: Task, backend: Backend, *, patience: Patience = Patience()) -> CheckResult:
    """Check one task. Infrastructure trouble that stays is the outcome ``infra``, never the task's failure."""
    began = time.monotonic()
    findings = _Findings()
    try:
        _Check(task, backend, patience, findings).run()
    except (InfraError, MissingRequirement) as error:
        findings.set(findings.step, Outcome.INFRA, f"{findings.step}: {error}")
    return findings.result(task.id, time.monotonic() - began)


@dataclass
class _Findings:
    """What is known of a task so far."""

    step: str = "build"
    """The step that is under way."""
    steps: dict[str, Outcome] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    def set(self, step: str, outcome: Outcome, reason: str = "") -> None:
        self.steps[step] = outcome
        if reason:
            self.reasons.append(reason)

    def result(self, task_id: str, seconds: float) -> CheckResult:
        outcome = Outcome.FAIL if self.reasons else Outcome.PASS
        if Outcome.INFRA in self.steps.values():
            outcome = Outcome.INFRA
        reason = "; ".join(self.reasons)
        return CheckResult(id=task_id, outcome=outcome, seconds=seconds, reason=reason, **self.steps)


@dataclass(frozen=True)
class _Check:
    """The steps. A wrong initial test does not keep the final one from being tried: one check tells all."""

    task: Task
    backend: Backend
    patience: Patience
    findings: _Findings

    def run(self) -> None:
        """Raises InfraError, MissingRequirement."""
        image = self.patience.call(self._build)
        if image is None:
            return
        try:
            self._tests(image)
        finally:
            self._remove(image)

    def _build(self) -> Image | None:
        built = self.backend.build(self.task.environment, timeout=self.task.limits.build_seconds)
        if isinstance(built, BuildFailure):
            limit = f" (longer than {self.task.limits.build_seconds:g} s)" if built.timed_out else ""
            self.findings.set("build", Outcome.FAIL, f"the environment does not build{limit}: {_tail(built.log)}")
            return None
        self.findings.set("build", Outcome.PASS)
        return built

    def _tests(self, image: Image) -> None:
        task = self.task
        if task.initial_test:
            verdict = self._verdict("initial", image)
            self.findings.set(
                "initial",
                verdict.outcome,
                _unless_passed(verdict, "the initial test fails on the untouched environment"),
            )
        verdict = self._verdict("final", image)
        self.findings.set("final", verdict.outcome, _final_reason(verdict))
        if task.solution:
            verdict = self._verdict("oracle", image)
            self.findings.set(
                "oracle", verdict.outcome, _unless_passed(verdict, "the final test fails after the oracle")
            )

    def _verdict(self, step: str, image: Image) -> Verdict:
        """A step's verdict in a fresh sandbox. Raises InfraError."""
        self.findings.step = step
        task, backend, role = self.task, self.backend, verifier_role(self.task)
        images = [image]

        def attempt() -> Verdict:
            with backend.start(images.pop() if images else self._rebuild()) as sandbox:
                if step == "initial":
                    seconds = task.limits.verifier_seconds
                    test, keep = task.initial_test, task.keep_ports
                    return verify(sandbox, backend.grader, test, timeout=seconds, keep_ports=keep, role=role)
                if step == "oracle":
                    run_oracle(sandbox, task.solution, timeout=task.limits.agent_seconds)
                return grade(task, sandbox, backend, role=role)

        return self.patience.call(attempt)

    def _rebuild(self) -> Image:
        """Before another try: a task with the same environment may have removed the image. Raises EngineError."""
        built = self.backend.build(self.task.environment, timeout=self.task.limits.build_seconds)
        if isinstance(built, BuildFailure):
            raise EngineError(f"the environment built at first, but not again: {_tail(built.log)}")
        return built

    def _remove(self, image: Image) -> None:
        try:
            self.backend.remove_image(image)
        except InfraError as error:
            log.warning("the image of task %s stays: %s", self.task.id, error)


def _tasks_below(path: Path) -> Iterator[Path]:
    folders = find_tasks(path)
    first = next(folders, None)
    if first is None:
        raise UserError(f"no tasks in {path}: a task is a folder with a task.toml and an instruction.md")
    yield first
    yield from folders


def verifier_role(task: Task) -> Role:
    """Who the tests run as. Others' tests expect to be their image's own user, and ask what *they* may read or write;
    no agent has run in the sandboxes of a check, so there is nobody to be safe from."""
    if task.environment.context is None:
        return Role.ROOT
    user = last_user((task.environment.context / "Dockerfile").read_text("utf-8", "replace"))
    return Role.ROOT if user in ("root", "0") else Role.AGENT


def _unless_passed(verdict: Verdict, what: str) -> str:
    return "" if verdict.outcome is Outcome.PASS else _complaint(what, verdict)


def _final_reason(verdict: Verdict) -> str:
    """What is wrong with the final test's verdict on the untouched environment; empty when it rightly fails."""
    if verdict.outcome is Outcome.PASS:
        return "the final test passes on the untouched environment"
    if verdict.reason not in _RIGHT_FAILURES:
        return _complaint("the final test does not run on the untouched environment", verdict)
    return ""


def _complaint(what: str, verdict: Verdict) -> str:
    module = _MISSING_MODULE.search(verdict.log)
    if module and verdict.reason is Reason.COLLECTION_ERROR:
        needs = f"it imports {module[1]!r}, which the grader's Python does not have (the standard library and pytest)"
        return f"{what}: {needs}"
    return f"{what} ({verdict.reason}): {_tail(verdict.log)}"


def _tail(log: str) -> str:
    text = log.strip()
    return text if len(text) <= _TAIL else f"[...] {text[-_TAIL:]}"
