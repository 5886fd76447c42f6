"""A byte stream to a shell, where only whole commands can be executed: ``shell.Transport`` over Harbor's environments.

Harbor runs one command at a time and returns what it printed, as text, once it has ended. The agent's shell must live
longer than that, so it runs detached in the sandbox: its input is a FIFO, and a relay owned by root turns its output
into numbered files, as slowly as they are read. One executed script (``inside/talk.sh``) sends a request and waits for
the answer, so an ordinary command takes one execution. What the shell and its driver are is the training sandboxes'
own business (``sandbox/shell.py``), and so exit codes, limits and the order of output are the same.
"""

import base64
import binascii
import logging
import math
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from runner.domain.errors import EngineError

log = logging.getLogger(__name__)

LONGEST_WAIT = 10.0
"""Seconds one execution waits for output; environments elsewhere have limits of their own for one."""
SEND_WAIT = 0.3
"""Seconds that a request waits for its answer at once: most commands are done by then."""
MARGIN_SECONDS = 60
"""How much longer than its wait an execution may take."""
PIECE = 60_000
"""Bytes sent at once: Linux takes 128 KiB in one argument, and base64 makes a third more of it."""
CHUNK = 1 << 16
"""Bytes handed on at once, as a pipe does: a shell that floods is not to be told from its end."""
GONE = 137
"""The exit code of a shell that was killed together with what watched it."""

_INSIDE = Path(__file__).with_name("inside")


class Execute(Protocol):
    """One execution in the sandbox."""

    def __call__(self, command: str, *, root: bool, seconds: int) -> str:
        """What a bash command printed, by root or by the agent's user. Raises EngineError."""


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """What ``talk.sh`` says."""

    next: int
    state: str
    code: int | None
    output: bytes


class Tunnel:
    """See ``shell.Transport``."""

    def __init__(self, execute: Execute, argv: Sequence[str], *, base: str = "/run") -> None:
        """Start ``argv`` as the agent; what it takes lies in a folder below ``base``. Raises EngineError."""
        self._execute = execute
        self._folder = f"{base}/.endless-{secrets.token_hex(8)}"
        self._next = 0
        self._heard = b""
        self._ended = self._closed = False
        self._code: int | None = None
        self._script("open", self._folder, _read("talk"))
        self._script("start", self._folder, *argv, root=False)

    def send(self, data: bytes) -> None:
        """Write all of ``data``, and listen for a moment. Raises OSError when the shell has ended, and EngineError."""
        while len(data) > PIECE:
            self._append(data[:PIECE])
            data = data[PIECE:]
        answer = self._talk(data, SEND_WAIT)
        self._take(answer)
        if answer.state == "deaf":
            raise BrokenPipeError("the shell had ended before")

    def receive(self, timeout: float) -> bytes | None:
        """See ``Transport.receive``. Raises EngineError. Where it is not to wait, it only looks at what came before:
        whether the shell still lives shows with the next request."""
        if not self._heard and not self._ended and timeout > 0:
            self._take(self._talk(b"", min(timeout, LONGEST_WAIT)))
        heard, self._heard = self._heard[:CHUNK], self._heard[CHUNK:]
        return heard or (b"" if self._ended else None)

    def exit_code(self) -> int | None:
        """See ``Transport.exit_code``."""
        return self._code

    def close(self) -> None:
        """See ``Transport.close``."""
        if not self._closed:
            self._closed = self._ended = True
            self._try("kill", root=False)
            self._try("close", "remove")

    def release(self) -> None:
        """Let go without a change to anything that runs: what it still prints is thrown away. Does not raise."""
        if not self._closed:
            self._closed = self._ended = True
            self._try("close", "drain")

    def _take(self, answer: _Answer) -> None:
        self._next = answer.next
        self._heard += answer.output
        if answer.state != "open":
            self._ended = True
            self._code = GONE if answer.code is None else answer.code

    def _append(self, piece: bytes) -> None:
        path = shlex.quote(f"{self._folder}/send")
        command = f"printf %s {_text(piece)} | base64 -d >>{path}"
        self._execute(command, root=True, seconds=MARGIN_SECONDS)

    def _talk(self, data: bytes, wait: float) -> _Answer:
        word = secrets.token_hex(8)
        tenths = str(math.ceil(wait * 10))
        seconds = math.ceil(wait) + MARGIN_SECONDS
        talk, words = shlex.quote(f"{self._folder}/talk"), [self._folder, str(self._next), tenths, word, _text(data)]
        there = shlex.join(["bash", "--norc", "--noprofile", f"{self._folder}/talk", *words])
        gone = f"echo {word} {self._next} gone -; echo {word}"
        said = self._execute(f"if [[ -f {talk} ]]; then {there}; else {gone}; fi", root=True, seconds=seconds)
        return _parse(said, word)

    def _script(self, name: str, *arguments: str, root: bool = True, seconds: int = MARGIN_SECONDS) -> str:
        return self._execute(script(name, *arguments), root=root, seconds=seconds)

    def _try(self, name: str, *arguments: str, root: bool = True) -> None:
        try:
            self._script(name, self._folder, *arguments, root=root)
        except EngineError as error:
            log.debug("a shell's leftovers stay: %s", error)


def script(name: str, *arguments: str) -> str:
    """One of our scripts as a bash command."""
    return shlex.join(["bash", "--norc", "--noprofile", "-c", _read(name), "bash", *arguments])


def _read(name: str) -> str:
    return (_INSIDE / f"{name}.sh").read_text(encoding="utf-8")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _parse(said: str, word: str) -> _Answer:
    """The answer within what an execution printed, which may hold an engine's warnings too. Raises EngineError."""
    _, found, rest = said.partition(word + " ")
    body, ended, _ = rest.partition(word)
    try:
        head, *lines = body.splitlines()
        number, state, code = head.split()
        output = base64.b64decode("".join(lines), validate=True)
        if not (found and ended):
            raise ValueError("it is not framed")
        return _Answer(next=int(number), state=state, code=int(code) if code.isdigit() else None, output=output)
    except (ValueError, binascii.Error) as error:
        raise EngineError(f"the sandbox's shell gave no answer ({error}): {said[-300:].strip()!r}") from error
