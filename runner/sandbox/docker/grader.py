"""The grader's runtime as a volume of the engine: filled once, mounted read-only into every sandbox.

A volume rather than a folder of this machine, because the engine may be on another one.
"""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.domain.errors import EngineError
from runner.sandbox.docker.archive import archive, folder_archive
from runner.sandbox.docker.containers import created
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import MARK, VOLUME
from runner.sandbox.docker.uses import Uses
from runner.sandbox.runtime import ensure_runtime

MOUNT = "/opt/endless-grader"
PRELOAD = "/etc/ld.so.preload"
_COMPLETE = "complete"
_LABELS = {MARK: VOLUME}


class GraderVolume:
    """Makes sure, once per process, that the volume is there and whole."""

    def __init__(self, engine: Engine, cache: Path, run: str) -> None:
        self._engine, self._cache, self._run = engine, cache, run
        self._lock = threading.Lock()
        self._name = ""

    def mounts(self, image: str) -> list[Any]:
        """What ``containers.create`` mounts; ``image`` is any image there is. Raises EngineError."""
        from docker.types import Mount

        with self._lock:
            self._name = self._name or self._ensure(image)
        # The engine's own /dev/null, which is empty whoever writes to it: no library of the agent's can be loaded into
        # the grader. (A file of the volume would do, but Docker leaves its mount of one behind if it dies meanwhile.)
        nothing = Mount(PRELOAD, "/dev/null", type="bind", read_only=True)
        # Where the volume has been removed, the engine makes an empty one of that name: it shall be known as ours.
        return [Mount(MOUNT, self._name, read_only=True, no_copy=True, labels=_LABELS), nothing]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Around the life of a container. Where there is trouble: `endless clean`, called for another outputs folder,
        may have removed the volume between two of this run's containers. Whether it is whole is seen to again before
        the next, for which it is filled under all those that have it."""
        try:
            yield
        except EngineError:
            with self._lock:
                self._name = ""
            raise

    def _ensure(self, image: str) -> str:
        runtime = ensure_runtime(self._cache)
        name = f"endless-grader-{runtime.name}"
        # Other processes of this machine wait here; another machine would write the same bytes.
        with (self._cache / "grader-volume.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._fill(image, name, runtime)
        Uses.below(self._cache).note(name)
        return name

    def _fill(self, image: str, name: str, runtime: Path) -> None:
        from docker.errors import NotFound
        from docker.types import Mount

        with self._engine.trouble("prepare the grader's volume"):
            self._engine.client.volumes.create(name, labels=_LABELS)
        mount = Mount(MOUNT, name, no_copy=True)
        with (
            created(self._engine, image, self._run, network_mode="none", mounts=[mount]) as container,
            self._engine.trouble("fill the grader's volume"),
        ):
            try:
                _discard(container.get_archive(f"{MOUNT}/{_COMPLETE}"))
            except NotFound:
                with folder_archive(runtime) as files:
                    container.put_archive(MOUNT, files)
                container.put_archive(MOUNT, archive({_COMPLETE: b""}, mode=0o644))


def _discard(answer: tuple[Any, Any]) -> None:
    """Read an answer to its end, so that its connection can be used again."""
    for _ in answer[0]:
        pass
