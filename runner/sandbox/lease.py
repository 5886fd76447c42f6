"""Who uses a cache folder: each run holds a lease while it lives, and whoever removes files asks for the leases first.

A lease is a locked file in ``<cache>/runs``. The kernel gives the lock back however its process ends. While caches are
cleaned no lease can be taken, so that nothing disappears between being found and being used.
"""

import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import EngineError
from runner.sandbox.advice import advised

_GATE = "gate.lock"


class Lease:
    """One run's. Safe to use from many threads."""

    def __init__(self, cache: Path) -> None:
        """Takes nothing yet."""
        self._folder = cache / "runs"
        self._lock = threading.Lock()
        self._held: tuple[int, Path] | None = None

    def take(self) -> None:
        """Hold the lease from now on; waits while the caches are being cleaned. Idempotent. Raises EngineError."""
        with self._lock:
            if self._held is not None:
                return
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                with _gate(self._folder):
                    _live(self._folder)
                    self._held = _new_lease(self._folder)
            except OSError as error:
                raise EngineError(advised(f"The cache in {self._folder.parent} cannot be used: {error}")) from error

    def release(self) -> None:
        """Give it back. Idempotent; does not raise."""
        with self._lock:
            if self._held is not None:
                descriptor, path = self._held
                path.unlink(missing_ok=True)
                os.close(descriptor)
                self._held = None


@contextmanager
def cleaning(cache: Path) -> Iterator[float | None]:
    """Since when (seconds since the epoch) the longest of the live runs holds its lease; None: nobody does. Meanwhile
    no run can begin to use the cache. Raises EngineError."""
    folder = cache / "runs"
    if not folder.is_dir():
        yield None
        return
    with _gate(folder):
        yield min((path.stat().st_mtime for path in _live(folder)), default=None)


@contextmanager
def _gate(folder: Path) -> Iterator[None]:
    try:
        gate = (folder / _GATE).open("a")
    except OSError as error:
        raise EngineError(advised(f"The cache in {folder.parent} cannot be used: {error}")) from error
    with gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def _live(folder: Path) -> list[Path]:
    """The leases of runs that live; those of dead ones are removed."""
    return [path for path in folder.glob("*.lease") if _is_held(path)]


def _new_lease(folder: Path) -> tuple[int, Path]:
    descriptor, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", suffix=".lease", dir=folder)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor, Path(name)


def _is_held(path: Path) -> bool:
    """Whether its run lives; the lease of a dead one is removed."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:  # given back just now
        return False
    except PermissionError:  # another user's: be careful
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        path.unlink()
    return False
