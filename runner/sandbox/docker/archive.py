"""Tar archives for the engine: deterministic, owned by root, without times."""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO


def archive(files: Mapping[str, bytes], *, mode: int = 0o600, folder_mode: int = 0o700) -> bytes:
    """An archive of ``files`` (relative path -> content) and their folders."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        folders = {parent for name in files for parent in Path(name).parents if parent != Path()}
        for folder in sorted(folders):
            entry = tarfile.TarInfo(str(folder))
            entry.type, entry.mode = tarfile.DIRTYPE, folder_mode
            tar.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@contextmanager
def folder_archive(folder: Path, keep: Callable[[Path], bool] = lambda _: True) -> Iterator[IO[bytes]]:
    """An archive of a folder's tree in a temporary file, at its start; ``keep`` decides by relative path."""
    with TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in sorted(folder.rglob("*")):
                relative = path.relative_to(folder)
                if keep(relative):
                    _add(tar, path, str(relative))
        file.seek(0)
        yield file


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tar.gettarinfo(path, arcname=name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    if entry.isreg():
        with path.open("rb") as content:
            tar.addfile(entry, content)
    else:
        tar.addfile(entry)
