"""A program started in a local sandbox: the local side of ``shell.Transport``, and the collecting of output."""

import contextlib
import os
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.domain.errors import EngineError
from runner.sandbox.advice import advised

SEND_SECONDS = 30.0
"""A program that reads nothing for this long is taken for dead."""
START_SECONDS = 60.0
EXIT_SECONDS = 5.0
_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Program:
    """What to start, and as whom."""

    argv: Sequence[str]
    agent: bool
    """As the agent, or else as the sandbox's root."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    limits: Mapping[str, int] = field(default_factory=dict)
    """Name of a resource limit (``NPROC``) -> its value."""

    def message(self) -> dict[str, Any]:
        """For the wire."""
        return {
            "argv": list(self.argv),
            "agent": self.agent,
            "env": dict(self.env),
            "cwd": self.cwd,
            "limits": dict(self.limits),
        }


class Process:
    """A started program. Its stdout and stderr are one stream."""

    def __init__(self, *, stdin: int, output: int, status: int) -> None:
        """Takes the descriptors over; -1 where there is none."""
        self._stdin, self._output, self._status = stdin, output, status
        self._exit: int | None = None
        self._said = b""

    @classmethod
    def start(
        cls, tell: Callable[[Sequence[int]], None], *, stdin: int | None = None, stdout: int | None = None
    ) -> "Process":
        """Make the pipes that are needed, have the inside start the program with them, wait until it runs.

        Raises EngineError, also for a program that does not exist.
        """
        ends = [os.pipe(), os.pipe(), os.pipe()]
        (child_in, our_in), (our_out, child_out), (our_status, child_status) = ends
        process = cls(stdin=our_in, output=our_out, status=our_status)
        try:
            tell([child_in if stdin is None else stdin, child_out if stdout is None else stdout, child_status])
        except BaseException:
            process.close()
            raise
        finally:
            for descriptor in (child_in, child_out, child_status):
                os.close(descriptor)
        os.set_blocking(our_in, False)
        os.set_blocking(our_out, False)
        process._await_start()
        return process

    def send(self, data: bytes) -> None:
        """See ``Transport.send``."""
        ready = select.poll()
        ready.register(self._stdin, select.POLLOUT)
        while data:
            if not ready.poll(SEND_SECONDS * 1000):
                raise TimeoutError("the program does not read its input")
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(self._stdin, data) :]

    def receive(self, timeout: float) -> bytes | None:
        """See ``Transport.receive``. Background children may hold the output open: the program's own end counts."""
        deadline = time.monotonic() + timeout
        while True:
            ended = self._exit is not None
            chunk = self._read()
            if chunk:
                return chunk
            if ended:
                return b""
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._wait(left, output=chunk is None)

    def exit_code(self) -> int | None:
        """See ``Transport.exit_code``."""
        deadline = time.monotonic() + EXIT_SECONDS
        while self._exit is None and (left := deadline - time.monotonic()) > 0:
            self._wait(left, output=False)
        return None if self._exit == _UNKNOWN else self._exit

    def close(self) -> None:
        """See ``Transport.close``. The program lives on until its space ends."""
        for descriptor in (self._stdin, self._output, self._status):
            if descriptor >= 0:
                os.close(descriptor)
        self._stdin = self._output = self._status = -1

    def _read(self) -> bytes | None:
        """Some output, None for silence, ``b""`` when nobody can write any more."""
        try:
            return os.read(self._output, _CHUNK)
        except BlockingIOError:
            return None

    def _wait(self, seconds: float, *, output: bool) -> None:
        """Wait for output (if ``output``) or news of the program, and take note of the news."""
        events = select.poll()
        if output:
            events.register(self._output, select.POLLIN)
        events.register(self._status, select.POLLIN)
        for descriptor, _ in events.poll(seconds * 1000):
            if descriptor == self._status:
                news = os.read(self._status, 4096)
                self._said += news
                words = self._said.split()
                if not news:
                    self._exit = int(words[-1]) if len(words) > 1 and words[-2] == b"exit" else _UNKNOWN

    def _await_start(self) -> None:
        """Raises EngineError when the program could not be started."""
        deadline = time.monotonic() + START_SECONDS
        while b"\n" not in self._said and self._exit is None and (left := deadline - time.monotonic()) > 0:
            self._wait(left, output=False)
        if not self._said.startswith(b"started\n"):
            said = self._said.decode("utf-8", "replace").removeprefix("error ").strip()
            self.close()
            raise EngineError(advised(f"A program could not be started in the sandbox: {said or 'no answer'}"))


_UNKNOWN = -1
"""The program ended with its sandbox."""
