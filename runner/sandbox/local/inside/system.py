"""Which folders of the machine a sandbox shows, and how.

Normally each system folder is one overlay. The kernel refuses that, in a user namespace, for a folder with other mounts
inside: /etc in most containers, /usr under WSL. Such a folder is taken apart (its folders without mounts are overlays,
those with mounts are shown read-only), and such an /etc, which is small, is copied.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A folder of the machine, or of the sandbox's root file system."""

    lower: str
    name: str
    """Where it is in the sandbox, relative to the root; empty for the root itself."""
    writable: bool = True
    """Through an overlay, or else read-only with all that is mounted inside."""


def whole(lower: str) -> Iterator[Shown]:
    """A root file system of one's own."""
    yield Shown(lower=lower, name="")


def folders(lower: str, copies: Path, mounts: frozenset[str]) -> Iterator[Shown]:
    """The machine's system folders. ``lower`` is its root, ``copies`` a folder for copies, ``mounts`` what is mounted
    where ("/etc/hosts"). Raises OSError."""
    for name in FOLDERS:
        folder = Path(lower, name)
        if folder.is_symlink() or not folder.is_dir():
            continue
        if not _holds(f"/{name}", mounts):
            yield Shown(lower=str(folder), name=name)
        elif name == "etc":
            copy(folder, copies / name)
            yield Shown(lower=str(copies / name), name=name)
        else:
            yield from _apart(folder, name, mounts)


def links(lower: str) -> Iterator[tuple[str, Path]]:
    """(name, target) of system folders that are links to others."""
    for name in FOLDERS:
        if Path(lower, name).is_symlink():
            yield name, Path(lower, name).readlink()


def mounted() -> frozenset[str]:
    """What is mounted where, in this mount namespace."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return frozenset(line.split()[4].replace("\\040", " ") for line in lines)


def copy(lower: Path, upper: Path) -> None:
    """Copy folders and files, as far as they can be read. What cannot, a lock or a secret of this machine, becomes an
    empty file."""
    upper.mkdir(exist_ok=True)
    for entry in lower.iterdir():
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            (upper / entry.name).symlink_to(entry.readlink())
        elif stat.S_ISDIR(mode) and os.access(entry, os.R_OK | os.X_OK):
            copy(entry, upper / entry.name)
        elif stat.S_ISREG(mode):
            copy_file(entry, upper / entry.name)
    upper.chmod(stat.S_IMODE(lower.stat().st_mode) | stat.S_IRWXU)


def copy_file(lower: Path, upper: Path) -> None:
    """Copy a file with its mode and times, or make an empty one for its owner only."""
    if os.access(lower, os.R_OK):
        shutil.copy2(lower, upper)
    else:
        upper.touch(mode=0o600)


def _apart(folder: Path, name: str, mounts: frozenset[str]) -> Iterator[Shown]:
    for entry in folder.iterdir():
        inside = f"{name}/{entry.name}"
        if entry.is_dir() and not entry.is_symlink():
            yield Shown(lower=str(entry), name=inside, writable=not _holds(f"/{inside}", mounts))


def _holds(path: str, mounts: frozenset[str]) -> bool:
    """Whether something is mounted below ``path`` (one mount over all of it does no harm)."""
    return any(mount.startswith(f"{path}/") for mount in mounts)
