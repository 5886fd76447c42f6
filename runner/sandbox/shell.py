"""The agent's persistent shell: one bash for a whole episode, driven over one byte stream.

The same protocol runs over an attached ``docker exec``, over ``bwrap`` and over a plain subprocess; only the
``Transport`` differs. One request is ``command NUL nonce NUL`` on the driver's standard input. The driver evaluates
the command with an empty standard input, and *then* reads the nonce and prints ``nonce status pid jobs cwd NUL`` on the
stream the command wrote to (driver.py). So nothing is quoted, nothing is forked, there is no length limit and no
temporary file; the mark cannot overtake the command's output; and nothing that ran before knows the nonce that ends a
command. (A command can read its own nonce from the shell's descriptors, and forge its own exit code with it. It then
lies to nobody but its own model: rewards do not come through the shell.)

A command that overruns its time or its output is ended step by step (see ``Shell._end``), sparing background jobs that
earlier commands started. A shell that dies (``exit``, ``exec``, ``set -e``, ``kill -9 $$``) is opened anew in the last
working directory, and the result says so.
"""

import contextlib
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn, Protocol

from runner.domain.errors import EngineError
from runner.domain.task import AGENT_HOME, AGENT_USER
from runner.sandbox.base import ExecResult
from runner.sandbox.driver import driver_argv, ladder_argv

log = logging.getLogger(__name__)

AGENT_ENV = {
    "HOME": AGENT_HOME,
    "USER": AGENT_USER,
    "LOGNAME": AGENT_USER,
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "DEBIAN_FRONTEND": "noninteractive",
}
"""What a transport's process has in its environment: no colours, no pagers, no questions."""

OPEN_SECONDS = 60.0
"""How long a new shell may take to answer; generous, for engines under load."""
GRACE_SECONDS = 0.7
"""How long each step of ending a command waits for the shell to come back."""
MARK_BYTES = 1 << 17
"""A mark is shorter than this: a folder's name and the numbers of all the shell's children."""
_MARK = re.compile(rb"[0-9a-f]{32} (\d{1,3}) (\d{1,7}) ,([0-9,]*), (.*)", re.DOTALL)


class Transport(Protocol):
    """A byte stream to and from one started process in the sandbox."""

    def send(self, data: bytes) -> None:
        """Write all of ``data``. Raises OSError when the process no longer reads."""

    def receive(self, timeout: float) -> bytes | None:
        """Read some output: None when nothing came within ``timeout`` seconds, ``b""`` once the process has ended."""

    def exit_code(self) -> int | None:
        """The process's exit code once the stream has ended (128 + n for signal n); None when it is not known."""

    def close(self) -> None:
        """Let go of the process and its stream. Idempotent; does not raise."""


class _Stop(Enum):
    """Why a wait for a mark ended without one."""

    TIME = "time"
    FLOOD = "flood"
    ENDED = "ended"
    FORGED = "forged"
    """A command has got hold of its own nonce, and printed what the driver would not."""


@dataclass(frozen=True, kw_only=True)
class _Mark:
    """What the driver says when a command is over."""

    exit_code: int
    pid: int
    jobs: str
    cwd: str


class _Stream:
    """The output of one transport, cut at marks."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.output = b""
        """What came before the last mark, or before the wait for one ended."""
        self._buffer = bytearray()

    def until(self, nonce: bytes, seconds: float, limit: int) -> _Mark | _Stop:
        """Collect ``output`` until the mark of ``nonce``; stop early when it passes ``limit`` bytes."""
        deadline = time.monotonic() + seconds
        seen = 0
        while True:
            start = self._buffer.find(nonce, max(0, seen - len(nonce)))
            if start >= 0 and (end := self._buffer.find(b"\0", start)) >= 0:
                return self._cut(start, end)
            if start >= 0 and len(self._buffer) > start + MARK_BYTES:
                return _Stop.FORGED
            seen = len(self._buffer) if start < 0 else start
            self.output = bytes(self._buffer[: limit + 1] if start < 0 else self._buffer[:start])
            if start < 0 and len(self._buffer) > limit:
                return _Stop.FLOOD
            chunk = self.transport.receive(max(0.0, deadline - time.monotonic()))
            if chunk == b"":
                return _Stop.ENDED
            if chunk is None and deadline <= time.monotonic():
                return _Stop.TIME
            self._buffer += chunk or b""

    def drain(self, nonce: bytes, seconds: float) -> _Mark | _Stop:
        """Like ``until``, for a command that is being ended: its further output is thrown away."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            found = self.until(nonce, left, 1 << 20)
            if found is not _Stop.FLOOD:
                return found
            del self._buffer[: -len(nonce)]
        return _Stop.TIME

    def clear(self) -> None:
        """Forget what has come so far."""
        self._buffer.clear()

    def ended(self) -> bool:
        """Whether the process has ended by itself; what it said before that is kept."""
        chunk = self.transport.receive(0.0)
        self._buffer += chunk or b""
        return chunk == b""

    def _cut(self, start: int, end: int) -> _Mark | _Stop:
        found = _MARK.fullmatch(self._buffer, start, end)
        if found is None:
            return _Stop.FORGED
        code, pid, jobs, cwd = found.groups()
        self.output = bytes(self._buffer[:start])
        del self._buffer[: end + 1]  # what follows is a background job's, and the next command will show it
        folder = cwd.decode("utf-8", "surrogateescape")
        return _Mark(exit_code=int(code) & 255, pid=int(pid), jobs=f",{jobs.decode()},", cwd=folder)


class Shell:
    """A persistent bash that always answers. Used by one thread at a time; opened by the first ``run``."""

    def __init__(
        self,
        *,
        open: Callable[[Sequence[str], str | None], Transport],
        execute: Callable[[Sequence[str]], None],
        limit: int,
        home: str,
        start: str | None = None,
        purge: Callable[[], None] | None = None,
    ) -> None:
        """``open`` starts argv in a folder as the agent with ``AGENT_ENV``; ``execute`` runs a short program to its end
        as the agent in the same process namespace. ``limit`` caps one command's output in bytes. The shell starts in
        ``start``, or else in ``home``, or else in ``/``. ``purge`` ends every process of the agent's: for a shell that
        what the agent left running does not let open."""
        self._start_transport = open
        self._purge = purge
        self._execute = execute
        self._limit = limit
        self._home = home
        self._stream: _Stream | None = None
        self._state = _Mark(exit_code=0, pid=0, jobs=",", cwd=start or home)

    def run(self, command: str, timeout: float) -> ExecResult:
        """Run a command, for at most ``timeout`` seconds. Raises EngineError when the shell cannot be opened."""
        began = time.monotonic()
        text = _encode(command)
        if isinstance(text, str):
            return ExecResult(output=b"", exit_code=None, seconds=0.0, cwd=self._state.cwd, refused=text)
        nonce = secrets.token_hex(16).encode()
        reopened = self._send(text + b"\0" + nonce + b"\0")
        stream = self._opened()
        found = stream.until(nonce, timeout, self._limit)
        output = stream.output
        restarted = reopened
        code: int | None = None
        if isinstance(found, _Mark):
            self._state, code = found, found.exit_code
        elif found is _Stop.ENDED:
            code = stream.transport.exit_code()
            self._reopen()
            restarted = True
        elif found is _Stop.FORGED:
            self._replace()
            restarted = True
        else:
            restarted = self._end(nonce) or reopened
        return ExecResult(
            output=output[: self._limit],
            exit_code=code,
            seconds=time.monotonic() - began,
            cwd=self._state.cwd,
            timed_out=found is _Stop.TIME,
            truncated=len(output) > self._limit,
            restarted=restarted,
        )

    def open(self) -> None:
        """Open the shell ahead of the first command. Where that fails, the first command tries again."""
        try:
            self._opened()
        except EngineError as error:
            log.debug("the shell could not be opened ahead: %s", str(error))

    def close(self) -> None:
        """Let go of the shell. Its processes are the sandbox's to end. Idempotent."""
        if self._stream is not None:
            self._stream.transport.close()
            self._stream = None

    def _opened(self) -> _Stream:
        if self._stream is None:
            self._open()
        assert self._stream is not None
        return self._stream

    def _send(self, request: bytes) -> bool:
        """Send a request; True when the shell had died since the last command and was opened anew for it."""
        stream = self._opened()
        if not stream.ended():
            with contextlib.suppress(OSError):
                stream.transport.send(request)
                return False
        stream.transport.exit_code()  # raises EngineError where it was the engine that went away
        log.debug("the shell went away between two commands; opening it again")
        self._reopen()
        self._opened().transport.send(request)
        return True

    def _end(self, nonce: bytes) -> bool:
        """End the running command. First its processes are asked (TERM), then killed, then the shell itself is
        replaced, with a pause after each step for the mark to come. True when the shell was replaced."""
        stream = self._opened()
        for signal in ("TERM", "KILL"):
            self._signal(signal)
            found = stream.drain(nonce, GRACE_SECONDS)
            if isinstance(found, _Mark):
                self._state = found
                stream.clear()
                return False
            if found in (_Stop.ENDED, _Stop.FORGED):
                break
        self._replace()
        return True

    def _replace(self) -> None:
        """Kill the shell and what the current command started, and open another one."""
        self.close()  # first, since an engine may be busy with output that nobody reads
        self._signal("KILL", shell=True)
        self._open()

    def _signal(self, signal: str, *, shell: bool = False) -> None:
        """Signal every process the current command started; a helper that cannot start leaves it to the next step."""
        state = self._state
        try:
            self._execute(ladder_argv(signal, state.pid, state.jobs, shell=shell))
        except EngineError as error:
            log.debug("could not signal the command's processes: %s", str(error))

    def _reopen(self) -> None:
        self.close()
        self._open()

    def _open(self) -> None:
        """Raises EngineError when there is no shell even after the agent's processes were ended."""
        try:
            self._open_once()
        except EngineError as error:
            if self._purge is None or self._state.pid == 0:  # no shell was open before: the agent has done nothing yet
                raise
            log.debug("a shell did not open, ending the agent's processes: %s", str(error))
            self._purge()
            self._open_once()

    def _open_once(self) -> None:
        stream = _Stream(self._start_transport(driver_argv(), "/"))
        nonce = secrets.token_hex(16).encode()
        folders = (folder.encode("utf-8", "surrogateescape") for folder in (self._state.cwd, self._home))
        try:
            with contextlib.suppress(OSError):  # it has ended already: what it said tells why
                stream.transport.send(b"\0".join([*folders, nonce, b""]))
            found = stream.until(nonce, OPEN_SECONDS, self._limit)
        except EngineError:
            stream.transport.close()
            raise
        if not isinstance(found, _Mark):
            self._refuse(stream, found)
        stream.clear()
        self._stream, self._state = stream, found

    def _refuse(self, stream: _Stream, found: _Stop) -> NoReturn:
        """Say why there is no shell: the engine's own trouble, if it had any, or what came instead of an answer."""
        try:
            code = stream.transport.exit_code() if found is _Stop.ENDED else None
        finally:
            stream.transport.close()
        why = f"it ended with exit code {code}" if found is _Stop.ENDED else "it does not answer"
        said = stream.output[-500:].decode("utf-8", "replace").strip()
        raise EngineError(f"The sandbox's shell did not start: {why}. Is bash in the image? {said}".strip())


def _encode(command: str) -> bytes | str:
    """The command's bytes, or why it cannot be a command."""
    try:
        text = command.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return "the command holds characters that cannot be encoded as UTF-8"
    if b"\0" in text:
        return "the command holds a NUL byte, which no shell can read"
    return text
