"""Archives of tasks, unpacked where they can do no harm: whole, or not at all."""

import stat
import tarfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TypeVar

from runner.domain.errors import MissingRequirement, UserError

T = TypeVar("T")

MOST_MEMBERS, MOST_BYTES = 200_000, 8 << 30
"""An end to archives that unfold without one."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .tar (however compressed) or .zip file into an empty folder.

    Raises UserError for another kind of file, and for a member that would lie, or lead, outside of the folder.
    """
    try:
        if zipfile.is_zipfile(archive):
            _unzip(archive, folder)
        elif tarfile.is_tarfile(archive):
            _untar(archive, folder)
        else:
            raise UserError(f"{archive} is neither a folder nor a .tar, .tar.gz or .zip archive")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{archive} cannot be unpacked: {error}; nothing was imported") from error


def _untar(archive: Path, folder: Path) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise MissingRequirement("unpacking archives safely needs Python 3.11.4 or later; unpack it yourself")
    with tarfile.open(archive) as tar:
        members = _limited(archive, tar.getmembers(), [member.size for member in tar.getmembers()])
        for member in members:
            if member.name.startswith("/") or ".." in PurePosixPath(member.name).parts:
                raise _unsafe(archive, member.name, "it lies outside of the archive")
        try:
            tar.extractall(folder, members, filter="data")
        except tarfile.FilterError as error:
            raise _unsafe(archive, error.tarinfo.name, str(error)) from error


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for entry in _limited(archive, file.infolist(), [entry.file_size for entry in file.infolist()]):
            mode = entry.external_attr >> 16
            if entry.filename.startswith("/") or ".." in PurePosixPath(entry.filename.replace("\\", "/")).parts:
                raise _unsafe(archive, entry.filename, "it lies outside of the archive")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise _unsafe(archive, entry.filename, "it is a link or a device")
        for entry in file.infolist():
            path = Path(file.extract(entry, folder))
            if not entry.is_dir() and (entry.external_attr >> 16) & 0o100:
                path.chmod(0o755)


def _limited(archive: Path, members: list[T], sizes: list[int]) -> list[T]:
    if len(members) > MOST_MEMBERS or sum(sizes) > MOST_BYTES:
        raise UserError(
            f"{archive} holds more than {MOST_MEMBERS} files or {MOST_BYTES >> 30} GiB; nothing was imported"
        )
    return members


def _unsafe(archive: Path, name: str, why: str) -> UserError:
    return UserError(f"{archive} has an unsafe member, {name!r}: {why}; nothing was imported")
