"""The nursery in its container: one ``apptainer exec``, whose standard input is the socket to it."""

import contextlib
import random
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner.domain.errors import EngineError
from runner.sandbox.advice import advised
from runner.sandbox.apptainer.command import BASE_MOUNT, CODE_MOUNT, GRADER_MOUNT, environment, exec_argv
from runner.sandbox.local.identity import COUNT, Identity
from runner.sandbox.local.inside import wire
from runner.sandbox.local.nursery import PROGRAM, Nursery
from runner.sandbox.runtime import python_argv

TRIES = 4
"""On a busy node some of many simultaneous container starts fail at random."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """What the container is made of."""

    base: Path
    """The base image: a folder, or a .sif."""
    partition: int | None
    """Which one of the .sif."""
    grader: Path
    """The grader's Python, which the nursery runs on as well."""
    code: Path


class ApptainerNursery(Nursery):
    """See ``local.nursery.Nursery``. A container's users are its own, so the inside fills the maps of namespaces."""

    def __init__(self, folders: Callable[[], Folders]) -> None:
        """``folders`` finds or makes what the container needs, at the first start."""
        super().__init__()
        self._folders = folders
        self._asking = threading.Lock()

    @property
    def identity(self) -> Identity:
        """See ``Nursery.identity``; the first time, it is asked from inside. Raises EngineError."""
        with self._asking:
            if self._identity is None:
                try:
                    answer, _ = self._ask({"users": True})
                except OSError as error:
                    raise EngineError(advised(f"Apptainer could not start a container: {error}")) from error
                many = bool(answer["many"])
                self._identity = Identity(
                    kind="subuid" if many else "single", first=0, first_group=0, count=COUNT if many else 1
                )
            return self._identity

    def _fill(self, pid: int) -> None:
        answer, _ = self._ask({"fill": pid})
        if "error" in answer:
            raise OSError(0, answer["error"])

    def _ask(self, request: wire.Message, descriptors: Sequence[int] = ()) -> tuple[wire.Message, list[int]]:
        """See ``Nursery._ask``; tries more often, and not at the same moment as others whose start has failed too."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(OSError):
                return super()._ask(request, descriptors)
            time.sleep(random.uniform(0.2, 2.0))
        return super()._ask(request, descriptors)

    def _spawn(self, requests: int, said: IO[bytes]) -> subprocess.Popen[bytes]:
        folders = self._folders()
        mounts = {folders.base: BASE_MOUNT, folders.grader: GRADER_MOUNT, folders.code: CODE_MOUNT}
        argv = [*python_argv(Path(GRADER_MOUNT)), "-c", PROGRAM, CODE_MOUNT, "0"]
        return subprocess.Popen(
            exec_argv(folders.base, mounts, argv, partition=folders.partition),
            stdin=requests,
            stdout=said,
            stderr=said,
            env=environment(),
            cwd=folders.code,  # a folder that it can surely enter
            start_new_session=True,
        )
