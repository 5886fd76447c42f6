"""Room kept free on the disk, so that an answer which was paid for can be written when the disk fills up meanwhile.

A call may be in flight for minutes, and others use the disk too. So before a call some room is known to be there, and
nothing is asked any more once it is not.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.domain.errors import StorageError
from runner.store import jsonl

SIZE = 4 << 20
"""Bytes: a hundred calls in flight that all come back with long answers."""
_BLOCK = b"\0" * (1 << 16)


class SpareRoom:
    """A file that takes up room until it is needed. Thread-safe; runs that share a folder share the file."""

    def __init__(self, path: Path, size: int = SIZE) -> None:
        self._path, self._size = path, size
        self._lock = threading.Lock()

    def keep(self) -> None:
        """See to it that the room is there. Raises StorageError when the disk has none."""
        if self._path.exists():
            return
        with self._lock, jsonl.storage_errors(self._path):
            try:
                self._take()
            except OSError:
                self.release()
                raise

    def append(self, path: Path, row: Mapping[str, Any]) -> None:
        """``jsonl.append``, at the cost of the room when there is no other. Raises StorageError."""
        try:
            jsonl.append(path, row)
        except StorageError:
            with self._lock:
                self.release()
                jsonl.append(path, row)

    def release(self) -> None:
        """Give the room back, if it is there."""
        with suppress(OSError):
            self._path.unlink()

    def _take(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("wb", buffering=0) as file:
            for _ in range(self._size // len(_BLOCK)):
                jsonl.write_whole(file.fileno(), _BLOCK)
