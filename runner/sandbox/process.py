"""A ``Transport`` over the pipes of a subprocess on this machine: for the local backend, and for tests without one."""

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence

SEND_SECONDS = 30.0
"""A process that reads nothing for this long is taken for dead."""
CHUNK = 1 << 16


class ProcessTransport:
    """Starts ``argv`` in a session of its own and talks to it; stdout and stderr are one stream.

    The stream ends when the process itself has ended, even while background children still hold its descriptors.
    Linux only (pidfd).
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Raises OSError when the program cannot be started."""
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            pass_fds=tuple(pass_fds),
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._in.fileno(), False)
        os.set_blocking(self._out.fileno(), False)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._closed = False

    @property
    def pid(self) -> int:
        """The process's id on this machine."""
        return self._process.pid

    def send(self, data: bytes) -> None:
        """Write all of ``data``. Raises OSError when the process is gone or does not read for ``SEND_SECONDS``."""
        view = memoryview(data)
        deadline = time.monotonic() + SEND_SECONDS
        while view:
            if not _wait({self._in.fileno(): select.POLLOUT}, deadline - time.monotonic()):
                raise TimeoutError("the process does not read its input")
            written = self._in.write(view)
            view = view[written or 0 :]

    def receive(self, timeout: float) -> bytes | None:
        """See ``Transport.receive``."""
        out = self._out.fileno()
        ready = _wait({out: select.POLLIN, self._pidfd: select.POLLIN}, timeout)
        # Read first in any case: what the process wrote before it ended still counts.
        chunk = self._out.read(CHUNK) if ready else None
        return b"" if chunk is None and self._pidfd in ready else chunk

    def exit_code(self) -> int | None:
        """See ``Transport.exit_code``."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code

    def close(self) -> None:
        """Kill the process (its background children live on: the sandbox ends those) and close every descriptor."""
        if self._closed:
            return
        self._closed = True
        self._process.kill()
        self._process.wait()
        for stream in (self._in, self._out):
            stream.close()
        os.close(self._pidfd)


def _wait(events: Mapping[int, int], timeout: float) -> set[int]:
    """The descriptors that became ready within ``timeout`` seconds (poll, unlike select, has no descriptor limit)."""
    poll = select.poll()
    for descriptor, event in events.items():
        poll.register(descriptor, event)
    return {descriptor for descriptor, _ in poll.poll(max(0.0, timeout) * 1000)}
