"""Folders on a disk of their own that is too small, or read-only, for programs started inside.

Needs no privileges: a mount namespace (inside a user namespace, for anyone but root) that a sleeping process holds
open. Programs enter it through ``inside``; the test looks into it through ``seen``.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_USER = [] if os.geteuid() == 0 else ["--user"]


class SmallDisks:
    """The namespace. See ``small_disks``."""

    def __init__(self, holder: "subprocess.Popen[str]") -> None:
        self._pid = holder.pid

    def inside(self, folder: Path) -> tuple[str, ...]:
        """The start of a command line that runs the rest of it in there, in ``folder``."""
        user = ["--user", "--preserve-credentials"] if _USER else []
        enter = 'cd "$0" && exec "$@"'  # the folder, as the mounts in there have it
        return ("nsenter", "--target", str(self._pid), "--mount", *user, "sh", "-c", enter, str(folder))

    def seen(self, path: Path) -> Path:
        """Where this process finds a path of theirs."""
        return Path(f"/proc/{self._pid}/root{path}")

    def mount(self, folder: Path, size: int) -> None:
        """Put an empty disk of ``size`` bytes (whole pages) at a folder, which is made."""
        self._call("mkdir", "-p", str(folder))
        self._call("mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(folder))

    def resize(self, folder: Path, size: int) -> None:
        """Give a disk another size."""
        self._remount(folder, f"size={size}")

    def make_read_only(self, folder: Path, *, read_only: bool = True) -> None:
        """Let nobody write to a disk, not even root; or let them again."""
        self._remount(folder, "ro" if read_only else "rw")

    def _remount(self, folder: Path, option: str) -> None:
        # The options it has already are not given again: some of them may not be set twice.
        self._call("mount", "--options-mode", "ignore", "-o", f"remount,{option}", "small", str(folder))

    def _call(self, *argv: str) -> None:
        subprocess.run([*self.inside(Path("/")), *argv], check=True, capture_output=True)


@contextmanager
def small_disks() -> Iterator[SmallDisks]:
    """A namespace for disks, gone with all of them afterwards. Raises OSError where this machine has none to give."""
    argv = ["unshare", "--mount", "--propagation", "private", *_USER, *(["--map-root-user"] if _USER else [])]
    holder = subprocess.Popen(
        [*argv, "sh", "-c", "echo ready && exec sleep 3600"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "ready\n":
            raise OSError(f"no mount namespace: {holder.stderr.read().strip()}")
        yield SmallDisks(holder)
    finally:
        holder.kill()
        holder.communicate()
