"""What there is of a container on this machine, seen past its engine: one that has died knows less than that."""

import contextlib
import os
from pathlib import Path

import psutil

_ENGINE, _HOLDER = "dockerd", "containerd-shim"
_CGROUPS = Path("/sys/fs/cgroup")


def may_run(address: str, container: str) -> bool:
    """Whether something of the container runs, or something that is starting it, or containerd may think so. True where
    it cannot be told: the engine is elsewhere, or is not Docker. ``container`` is the whole id."""
    if not address.startswith("unix://"):
        return True
    table = list(psutil.process_iter(["name"]))
    if not any(process.info["name"] == _ENGINE for process in table):
        return True
    return any(_is_of(process, container) for process in table)


def _is_of(process: psutil.Process, container: str) -> bool:
    """A holder counts that holds something, or has: the container's control group is there then."""
    with contextlib.suppress(psutil.Error, OSError):
        if container in Path(f"/proc/{process.pid}/cgroup").read_text("utf-8", "replace"):
            return True
        if container in process.cmdline():
            holds_nothing = process.name().startswith(_HOLDER) and not process.children()
            return not holds_nothing or _has_group(container)
    return False


def _has_group(container: str) -> bool:
    """One controller tells, where each has a tree of its own."""
    root = next((path for path in (_CGROUPS / "pids", _CGROUPS / "memory") if path.is_dir()), _CGROUPS)
    return any(container in name for _, names, _ in os.walk(root) for name in names)
