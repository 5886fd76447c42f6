"""A real backend with faults put in: sandboxes that do not start, graders that crash, an engine away for a while.

Named in a recipe as ``support.faulty:FaultyLocal`` or ``:FaultyDocker``. A fault is chosen by a task's id, which
is part of its set-up script, and counts down over all of its sandboxes.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from runner.domain.errors import EngineError, EngineGone
from runner.domain.task import Environment
from runner.sandbox.base import Backend, BuildFailure, ExecResult, Image, Probe, Role, Sandbox
from runner.sandbox.docker import DockerBackend
from runner.sandbox.local import LocalBackend
from runner.schema import Sandbox as Settings

ALWAYS = 10**9


class Faults:
    """What is to go wrong, how often, and what did. Safe to use from many threads."""

    def __init__(self, planned: dict[str, int] | None = None, away: float = 0.0) -> None:
        """``planned``: ``"<fault> <task id>"`` -> how many times; ``away``: seconds for which the engine is gone, from
        the tenth sandbox on."""
        self._left = Counter(planned or {})
        self._lock = threading.Lock()
        self._away, self._back = away, 0.0
        self.happened: Counter[str] = Counter()
        self.started = self.open = self.most = 0

    def due(self, fault: str, environment: Environment) -> bool:
        """Whether it happens now."""
        with self._lock:
            for name in self._left:
                kind, task = name.split()
                if kind == fault and f"/{task}.txt" in environment.setup and self._left[name] > 0:
                    self._left[name] -= 1
                    self.happened[kind] += 1
                    return True
        return False

    def check_away(self) -> None:
        """Raises EngineGone while the engine is away."""
        with self._lock:
            self.started += 1
            if self._away and self.started == 10:
                self._back = time.monotonic() + self._away
        if not self.is_back():
            with self._lock:
                self.happened["away"] += 1
            raise EngineGone("The engine is restarting.", self.is_back)

    def is_back(self) -> bool:
        return time.monotonic() >= self._back

    @contextmanager
    def counted(self) -> Iterator[None]:
        """An open sandbox."""
        with self._lock:
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            yield
        finally:
            with self._lock:
                self.open -= 1


class FaultySandbox:
    """See ``base.Sandbox``."""

    def __init__(self, inner: Sandbox, environment: Environment, faults: Faults) -> None:
        self._inner, self._environment, self._faults = inner, environment, faults

    def run(self, command: str, *, timeout: float) -> ExecResult:
        self._faults.check_away()
        if self._faults.due("run", self._environment):
            raise EngineError("The sandbox broke.")
        return self._inner.run(command, timeout=timeout)

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        self._inner.quiesce(keep_ports)

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        if self._faults.due("verifier", self._environment):
            return ExecResult(output=b"Killed", exit_code=137, seconds=0.0)
        if self._faults.due("bug", self._environment):
            raise ZeroDivisionError("a mistake of ours")
        return self._inner.exec(argv, role=role, timeout=timeout, stdin=stdin, cwd=cwd)


class FaultyBackend:
    """See ``base.Backend``."""

    faults: ClassVar[Faults]
    """Set by the test."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.name, self.grader = inner.name, inner.grader

    def probe(self) -> Probe:
        return self._inner.probe()

    def build(self, environment: Environment, *, timeout: float) -> Image | BuildFailure:
        return self._inner.build(environment, timeout=timeout)

    @contextmanager
    def start(self, image: Image) -> Iterator[FaultySandbox]:
        faults = FaultyBackend.faults
        faults.check_away()
        if faults.due("start", image.environment):
            raise EngineError("The sandbox does not start.")
        with self._inner.start(image) as sandbox, faults.counted():
            yield FaultySandbox(sandbox, image.environment, faults)

    def stop(self) -> None:
        self._inner.stop()

    def close(self) -> None:
        self._inner.close()

    def reap(self) -> int:
        return self._inner.reap()

    def remove_image(self, image: Image) -> None:
        self._inner.remove_image(image)


class FaultyLocal(FaultyBackend):
    """Over the local backend."""

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        super().__init__(LocalBackend(config, cache, run_label))


class FaultyDocker(FaultyBackend):
    """Over the Docker backend."""

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        super().__init__(DockerBackend(config, cache, run_label))
