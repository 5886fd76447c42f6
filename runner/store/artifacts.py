"""Where phases keep their results: ``store/<phase>/<fingerprint>/``; what exists is done.

A phase works in ``<fingerprint>.partial/`` and the folder is renamed when whole. A lock file held by the working
process (and released by the kernel when it dies) keeps two runs from doing the same work at once.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.store.jsonl import storage_errors

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Store:
    """The results of all runs below one outputs folder."""

    root: Path

    def folder(self, phase: str, fingerprint: str) -> Path:
        """Where a finished phase's results are, or will be."""
        return self.root / phase / fingerprint

    def is_done(self, phase: str, fingerprint: str) -> bool:
        return self.folder(phase, fingerprint).is_dir()

    def has_begun(self, phase: str, fingerprint: str) -> bool:
        """Whether an interrupted attempt left work to go on from."""
        return self._partial(phase, fingerprint).is_dir()

    @contextmanager
    def work(self, phase: str, fingerprint: str) -> Iterator[Path | None]:
        """Yield the partial folder to work in, and rename it when the body ends without an exception.

        Yields None when another process finished the same phase while we waited for its lock. Raises StorageError.
        """
        final, partial = self.folder(phase, fingerprint), self._partial(phase, fingerprint)
        with self._lock(phase, fingerprint):
            if final.is_dir():
                yield None
                return
            with storage_errors(partial):
                partial.mkdir(parents=True, exist_ok=True)
            yield partial
            with storage_errors(final):
                partial.rename(final)

    def _partial(self, phase: str, fingerprint: str) -> Path:
        return self.root / phase / f"{fingerprint}.partial"

    @contextmanager
    def _lock(self, phase: str, fingerprint: str) -> Iterator[None]:
        path = self.root / phase / f".{fingerprint}.lock"
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.warning("another process is working on %s %s: waiting for it", phase, fingerprint)
                fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
