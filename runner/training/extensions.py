"""DeepSpeed's compiled parts, kept for the next training.

PyTorch guards a compilation with a file called ``lock``, and whoever finds one waits until it is gone. A compiler that
was killed never removes it, and every later training would wait for ever. So trainings hold a lock of the kernel's,
which no kill leaves behind, and the one that is alone removes such files.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.store.jsonl import storage_errors


@contextmanager
def extensions(cache: Path) -> Iterator[Path]:
    """The folder for TORCH_EXTENSIONS_DIR, free of what dead compilers left. Raises StorageError."""
    folder = cache / "torch-extensions"
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if _alone(descriptor):
            for lock in folder.glob("**/lock"):
                lock.unlink(missing_ok=True)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield folder
    finally:
        os.close(descriptor)


def _alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
