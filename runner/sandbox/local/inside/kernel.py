"""The system calls that Python 3.11 has no function for, each raising OSError with a word on what it was for."""

import ctypes
import os

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, NOATIME, NODIRATIME, BIND, REC, PRIVATE, RELATIME = (
    *(1, 2, 4, 8, 32, 1024, 2048),
    *(4096, 16384, 1 << 18, 1 << 21),
)
_DETACH, _DUMPABLE, _DROP_BOUNDING, _NO_NEW_PRIVILEGES = 2, 4, 24, 38
_KEPT_ON_REMOUNT = {os.ST_NOSUID: NOSUID, os.ST_NODEV: NODEV, os.ST_NOEXEC: NOEXEC, os.ST_NOATIME: NOATIME}
_KEPT_ON_REMOUNT |= {os.ST_NODIRATIME: NODIRATIME, os.ST_RELATIME: RELATIME}

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Enter new namespaces."""
    _check(_libc.unshare(flags), "making namespaces")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace behind a descriptor of ``/proc/PID/ns/...``."""
    _check(_libc.setns(descriptor, kind), "entering a namespace")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount, as in mount(2)."""
    result = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(result, f"mounting {kind or source} on {target}")


def bind(source: str, target: str, *, readonly: bool = False, flags: int = 0) -> None:
    """Show ``source`` at ``target``. The flags of its own mount stay on: a user namespace may not lift them."""
    mount(source, target, "", BIND | flags)
    if readonly:
        now = os.statvfs(target).f_flag
        kept = sum(flag for seen, flag in _KEPT_ON_REMOUNT.items() if now & seen)
        mount("", target, "", REMOUNT | BIND | RDONLY | kept)


def pivot(root: str) -> None:
    """Make the mount point ``root`` the root, and let go of the old one."""
    os.chdir(root)
    _check(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "changing the root")
    _check(_libc.umount2(b".", _DETACH), "leaving the old root")
    os.chdir("/")


_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}
"""glibc has no wrapper for pivot_root(2)."""


def set_dumpable() -> None:
    """After a change of user, own one's own files in /proc again."""
    _check(_libc.prctl(_DUMPABLE, 1, 0, 0, 0), "owning /proc/self")


def keep_capabilities(kept: frozenset[int]) -> None:
    """Drop all others from what later programs may have."""
    for capability in range(64):
        if capability not in kept and _libc.prctl(_DROP_BOUNDING, capability, 0, 0, 0) != 0:
            break  # past the last one that this kernel knows


def no_new_privileges() -> None:
    """No set-user-id program gives rights from here on."""
    _check(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "giving up new privileges")
