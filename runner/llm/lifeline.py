"""A wrapper around a server that ends with us, whatever ends us: ``python lifeline.py PROGRAM ARGUMENT...``.

Its standard input is a pipe whose other end only the runner holds. When the runner closes it, or dies in any way (a
``kill -9`` included), the pipe ends, and the wrapper ends the program with everything it has started. It runs as a
plain script, apart from the package, so that it starts at once.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    """Run the command until it ends or standard input does; its exit code."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _adopt_orphans()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: _end(child))
    threading.Thread(target=_watch, args=(child,), daemon=True).start()
    code = child.wait()
    _end(child)
    return code if code >= 0 else 128 - code


def _watch(child: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 1):
        pass
    _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End the program and its descendants: politely, then not."""
    family = psutil.Process().children(recursive=True)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    end = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < end and any(_alive(process) for process in family):
        time.sleep(_POLL_SECONDS)
    for process in [*family, *psutil.Process().children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_SECONDS)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _adopt_orphans() -> None:
    """Linux: what the program's own children leave behind becomes our child, so that ``_end`` finds it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
