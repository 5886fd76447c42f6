"""A small, single-threaded process that waits with all its modules loaded and forks one warden per sandbox.

The runner has many threads and must not fork by itself, and a fresh interpreter for each sandbox would cost more than
the sandbox. It ends when the runner does: its socket is at its end then.
"""

import contextlib
import gc
import os
import signal
import socket
import sys

from runner.sandbox.local.inside import warden, wire


def main() -> None:
    """Serve the socket whose descriptor is the last argument."""
    requests = socket.socket(fileno=int(sys.argv[-1]))
    os.chdir("/")
    os.umask(0o022)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens need no waiting for
    gc.freeze()
    while (received := wire.receive(requests)) is not None:
        settings, descriptors = received
        try:
            pid = os.fork()
        except OSError as error:
            wire.send(requests, {"error": str(error)})
        else:
            if pid == 0:
                requests.close()
                warden.main(settings, descriptors)
            with contextlib.suppress(OSError):  # the runner has just gone: the next receive says so
                wire.send(requests, {"pid": pid})
        for descriptor in descriptors:
            os.close(descriptor)
