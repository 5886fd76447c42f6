"""A small, single-threaded process that waits with all its modules loaded and forks one warden per sandbox.

The runner has many threads and must not fork by itself, and a fresh interpreter for each sandbox would cost more than
the sandbox. It ends when the runner does: its socket is at its end then.

It may itself be the program of a container (``sandbox/apptainer``), where the runner does not know the wardens by
their numbers: it hands out descriptors of them, and fills their user namespaces when asked to.
"""

import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from runner.sandbox.local.identity import COUNT
from runner.sandbox.local.inside import warden, wire


def main() -> None:
    """Serve the socket whose descriptor is the last argument."""
    requests = socket.socket(fileno=_away_from_stdin(int(sys.argv[-1])))
    os.chdir("/")
    os.umask(0o022)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens need no waiting for
    gc.freeze()
    while (received := wire.receive(requests)) is not None:
        request, descriptors = received
        try:
            answer, passed = _do(request, descriptors, requests)
        except OSError as error:
            answer, passed = {"error": str(error)}, []
        with contextlib.suppress(OSError):  # the runner has just gone: the next receive says so
            wire.send(requests, answer, passed)
        for descriptor in (*descriptors, *passed):
            os.close(descriptor)


def _do(request: wire.Message, descriptors: Sequence[int], requests: wire.Socket) -> tuple[wire.Message, list[int]]:
    """One request's answer and the descriptors that go with it. Raises OSError."""
    if "users" in request:
        return {"many": sum(count for _, count in _ranges("uid")) >= COUNT}, []
    if "fill" in request:
        _fill(Path("/proc", str(request["fill"])))
        return {"filled": True}, []
    pid = os.fork()
    if pid == 0:
        requests.close()
        warden.main(request, descriptors)
    return {"pid": pid}, [os.pidfd_open(pid)]


def _fill(process: Path) -> None:
    """Give a process's new user namespace the users of our own. Raises OSError."""
    for kind in ("gid", "uid"):  # one line for each of ours: the kernel takes no range that spans two of them
        lines = [f"{first} {first} {min(count, COUNT - first)}\n" for first, count in _ranges(kind) if first < COUNT]
        (process / f"{kind}_map").write_text("".join(lines), encoding="ascii")


def _ranges(kind: str) -> list[tuple[int, int]]:
    """(first, count) of the ``uid`` or ``gid`` ranges in the user namespace that this runs in."""
    lines = Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()
    return [(int(first), int(count)) for first, _, count in (line.split() for line in lines)]


def _away_from_stdin(descriptor: int) -> int:
    """The low numbers must stay taken, or a warden's descriptors would get them."""
    if descriptor != 0:
        return descriptor
    moved = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return moved
