"""Files and folders of the cache as things that may be removed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.domain.errors import EngineError
from runner.sandbox.advice import advised
from runner.sandbox.cache import Kept

IN_USE = "a run that works now uses it"
_BLOCK = 512
"""Bytes in a block of ``st_blocks``, whatever the file system's own are (man 2 stat)."""


def size_on_disk(path: Path) -> int:
    """Bytes that a file, or a folder with all that can be read of it, takes up."""
    size = path.lstat().st_blocks * _BLOCK
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            size += sum(_blocks(Path(folder, name)) for name in (*folders, *files))
    return size


def kept(
    kind: str,
    path: Path,
    remove: Callable[[Path], None],
    *,
    since: float | None,
    mark: Path | None = None,
    built: bool = False,
) -> Iterator[Kept]:
    """A file or folder that is of use, unless it has gone meanwhile. ``mark`` (else ``path``) is the file whose time
    is its last use; ``since`` is when the longest of the live runs began, which may use what was used since."""
    mark = mark or path
    try:
        used, size = mark.stat().st_mtime, size_on_disk(path)
    except OSError:
        return

    def go() -> bool:
        if mark.exists() and mark.stat().st_mtime > used:
            return False
        return _gone(path, remove)

    held = IN_USE if since is not None and used >= since else ""
    yield Kept(kind=kind, name=str(path), parts={str(path): size}, used=used, remove=go, built=built, held=held)


def litter(kind: str, path: Path, remove: Callable[[Path], None]) -> Iterator[Kept]:
    """A file or folder that is of no use to anybody, unless it has gone meanwhile."""
    try:
        parts = {str(path): size_on_disk(path)}
    except OSError:
        return
    yield Kept(kind=kind, name=str(path), parts=parts, used=0.0, remove=lambda: _gone(path, remove), litter=True)


def half_made(folder: Path, remove: Callable[[Path], None]) -> Iterator[Kept]:
    """See ``abandoned``."""
    for path in abandoned(folder):
        yield from litter("half-made", path, remove)


def abandoned(folder: Path) -> list[Path]:
    """What dead processes were making in a folder: ``NAME.PROCESS.TOKEN.partial``."""
    found = [(path, path.name.split(".")) for path in sorted(folder.glob("*.*.*.partial"))]
    return [path for path, name in found if name[1].isdecimal() and not Path("/proc", name[1]).exists()]


def unlink(path: Path) -> None:
    """Delete a file that may be gone already. Raises OSError."""
    path.unlink(missing_ok=True)


def _gone(path: Path, remove: Callable[[Path], None]) -> bool:
    try:
        remove(path)
    except OSError as error:
        raise EngineError(advised(f"{path} could not be removed: {error.strerror}")) from error
    if path.exists():
        raise EngineError(f"{path} could not be removed: some of its files belong to other users. Remove it as root")
    return True


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * _BLOCK
    except OSError:
        return 0
