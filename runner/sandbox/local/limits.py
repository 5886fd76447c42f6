"""What a local sandbox limits, what it does not, and what to do where it cannot work."""

import os
from pathlib import Path

from runner.schema import Sandbox as Settings

MIB = 1 << 20
OPEN_FILES = 1024
BUILD_PROCESSES = 2048
_COUNTED_BY_NAMESPACE = (5, 14)
"""From this Linux on, RLIMIT_NPROC counts a user's processes in the sandbox; before, on the whole machine."""
_REMEDIES = {
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"),
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
}


def episode_limits(settings: Settings) -> dict[str, int]:
    """Resource limits of each process. Memory is RLIMIT_DATA, what a process really allocates: many runtimes reserve
    far more address space than they use."""
    memory = settings.memory_mb * MIB
    limits = {"DATA": memory, "FSIZE": memory, "NOFILE": OPEN_FILES, "CORE": 0}
    return limits | ({"NPROC": settings.pids} if _counts_by_namespace() else {})


def build_limits() -> dict[str, int]:
    """For setup scripts, as roomy as those of the Docker backend."""
    limits = {"NOFILE": OPEN_FILES, "CORE": 0}
    return limits | ({"NPROC": BUILD_PROCESSES} if _counts_by_namespace() else {})


def not_enforced(*, single: bool, image: bool = False) -> tuple[str, ...]:
    """What is not done here, one line each; ``single``: with one user only, ``image``: over a base image."""
    limits = [
        "memory is limited for each process and for files, not for the sandbox as a whole",
        "processor time is not limited",
        "the kernel is shared with this machine, without a system-call filter",
    ]
    if not image:
        limits.append(
            "system folders are this machine's own, so tasks see its programs and versions, not a base image's"
        )
    if not _counts_by_namespace():
        limits.append("the number of processes is not limited before Linux 5.14")
    if single:
        limits.append(
            "root and the agent are one user in different namespaces: setup scripts cannot give files to other users "
            "(chown does nothing), and the agent may change whatever setup made; newuidmap would tell them apart"
        )
    return tuple(limits)


def remedy() -> str:
    """How to make it work, with the kernel setting that is in the way when there is one."""
    found = [fix for setting, (bad, fix) in _REMEDIES.items() if _sysctl(setting) == bad]
    fixes = found or ["sysctl user.max_user_namespaces, seccomp or the container that this runs in"]
    return f"Allow unprivileged user namespaces ({'; '.join(fixes)}), or use `sandbox=docker`."


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:  # this kernel has no such setting
        return ""


def _counts_by_namespace() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int("".join(digit for digit in minor if digit.isdigit()))) >= _COUNTED_BY_NAMESPACE
