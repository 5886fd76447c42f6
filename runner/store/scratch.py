"""Temporary folders that a kill -9 leaves behind only until the next one is made.

Each is locked by its process as long as that lives; the kernel gives the lock back, however the process ends. So what
can be locked is nobody's any more, without asking for process numbers, which are used again.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "endless-scratch-"


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """A folder in the system's temporary folder, gone afterwards; first removes what dead processes left there.

    ``purpose`` is a word for the folder's name. Raises OSError.
    """
    for folder in abandoned():
        remove_abandoned(folder)
    folder, lock = _make(purpose)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def abandoned() -> list[Path]:
    """The scratch folders whose process is dead. Folders that this user may not open are left out."""
    found = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with _taken(folder) as free:
            found += [folder] if free else []
    return sorted(found)


def remove_abandoned(folder: Path) -> bool:
    """Delete a scratch folder whose process is dead; returns whether it is gone. Does not raise."""
    with _taken(folder) as free:
        if free:
            shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def _make(purpose: str) -> tuple[Path, int]:
    """A new folder and the descriptor that locks it. Before it is locked, somebody may take it for abandoned."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{purpose}-"))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.is_dir():
                return folder, lock
            os.close(lock)


@contextmanager
def _taken(folder: Path) -> Iterator[bool]:
    """Whether the folder is nobody's; if so, it is ours meanwhile."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # another user's, or gone
        yield False
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(lock)
