"""A built environment as one tar file: what a setup script changed, deletions included.

Overlays record a deletion as a device 0/0 and a replaced folder as an attribute, both of which the archive keeps. The
archive is written to and read from a descriptor, so the file on disk belongs to the ordinary user, whoever owns what
inside.
"""

import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

OPAQUE = "user.overlay.opaque"
"""On a folder: nothing of the folder below shows through."""
_PAX = f"SCHILY.xattr.{OPAQUE}"
"""How archives name that attribute."""

Signature = tuple[int, int, int, int, int, bool]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A folder that goes into a layer."""

    name: str
    """Its name in the layer."""
    folder: Path
    """Where it is now."""
    left_out: frozenset[str]
    """What is not kept, as names in the layer."""


def survey(parts: Iterable[Part]) -> dict[str, Signature]:
    """What is there now, by name in the layer."""
    return {name: _signature(path) for part in parts for name, path in _walk(part.name, part.folder)}


def pack(descriptor: int, parts: Iterable[Part], before: Mapping[str, Signature]) -> None:
    """Write an archive of what has changed since the survey ``before``. Raises OSError."""
    with os.fdopen(os.dup(descriptor), "wb") as file, tarfile.open(fileobj=file, mode="w") as tar:
        for part in parts:
            for name, path in _changed(part.name, part.folder, part.left_out, before):
                _add(tar, name, path)


def unpack(descriptor: int, target: Path) -> None:
    """Lay an archive over the files below ``target``. Raises OSError."""
    folders: list[tuple[Path, float]] = []
    try:
        with os.fdopen(os.dup(descriptor), "rb") as file, tarfile.open(fileobj=file, mode="r|", errorlevel=2) as tar:
            tar.extraction_filter = lambda member, _: member  # it is our own archive; 3.11.2 has no other way to say so
            for member in tar:
                path = target / member.name
                _make_way(path, member)
                tar.extract(member, target, numeric_owner=True)
                if member.isdir():
                    folders.append((path, member.mtime))
                    if _PAX in member.pax_headers:
                        os.setxattr(path, OPAQUE, b"y")
    except tarfile.TarError as error:
        raise OSError(0, f"a layer cannot be unpacked: {error}") from error
    for path, time in folders:
        os.utime(path, (time, time))


def _changed(
    name: str, path: Path, left_out: frozenset[str], before: Mapping[str, Signature]
) -> Iterator[tuple[str, Path]]:
    """What is new or different, and the folders on the way to it, each before its content."""
    own = before.get(name) != _signature(path)
    entries = sorted(path.iterdir()) if _is_folder(path) else []
    below = (
        found
        for entry in entries
        if f"{name}/{entry.name}" not in left_out
        for found in _changed(f"{name}/{entry.name}", entry, left_out, before)
    )
    first = next(below, None)
    if own or first is not None:
        yield name, path
    if first is not None:
        yield first
        yield from below


def _walk(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    yield name, path
    if _is_folder(path):
        for entry in path.iterdir():
            yield from _walk(f"{name}/{entry.name}", entry)


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _signature(path: Path) -> Signature:
    """What a file is compared by: mode, owner, group, size and time; of a folder, whether it is opaque instead."""
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        return status.st_mode, status.st_uid, status.st_gid, 0, 0, _is_opaque(path)
    return status.st_mode, status.st_uid, status.st_gid, status.st_size, status.st_mtime_ns, False


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:  # not set, or (before Linux 6.6) not possible on a tmpfs
        return False


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    info = tar.gettarinfo(path, name)
    if info is None:  # a socket: nothing that could be kept
        return
    info.uname = info.gname = ""
    if info.isdir() and _is_opaque(path):
        info.pax_headers = {_PAX: "y"}
    if info.isreg():
        with path.open("rb") as content:
            tar.addfile(info, content)
    else:
        tar.addfile(info)


def _make_way(path: Path, member: tarfile.TarInfo) -> None:
    """Remove what was prepared where the layer has something of another kind."""
    if not os.path.lexists(path):
        return
    if not _is_folder(path):
        path.unlink()
    elif not member.isdir():
        shutil.rmtree(path)
