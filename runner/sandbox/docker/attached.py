"""One program executed in a container, with its streams on a socket: the Docker side of ``shell.Transport``."""

import contextlib
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Any

from runner.domain.errors import EngineGone
from runner.sandbox.docker.engine import Engine

SEND_SECONDS = 30.0
"""A program that reads nothing for this long is taken for dead."""
FIRST_LOOK, LONGEST_LOOK = 0.3, 5.0
"""After so many seconds of silence the engine is asked whether the program still runs: background children may hold
its stream open."""
LAST_WORDS_SECONDS = 5.0
"""How long the end of the stream of an ended program is waited for. A busy engine may say that it has ended long
before it hands over what it wrote last. Where background children hold the stream, Docker ends it within two seconds;
Podman does not."""
HEADER = 8


class Attached:
    """A started ``docker exec``. Its stdout and stderr are one stream, in the order in which they arrive."""

    def __init__(
        self,
        engine: Engine,
        container: str,
        argv: Sequence[str],
        *,
        user: str,
        cwd: str,
        env: Mapping[str, str],
        stdin: bool = True,
    ) -> None:
        """Raises EngineError when the program cannot be started."""
        self._engine = engine
        self._api = engine.client.api
        with engine.trouble("execute a program"):
            created = self._api.exec_create(
                container, list(argv), stdin=stdin, user=user, workdir=cwd, environment=dict(env)
            )
            self._id = str(created["Id"])
            self._holder: Any = self._api.exec_start(self._id, socket=True)
        self._socket = _bare(self._holder)
        self._early = _read_already(self._holder, self._socket)
        self._frames = _Frames()
        self._ended = False

    def send(self, data: bytes) -> None:
        """See ``Transport.send``."""
        self._socket.settimeout(SEND_SECONDS)
        self._socket.sendall(data)

    def finish(self) -> None:
        """End the program's standard input, where the connection can: Python's TLS has no half-close."""
        if isinstance(self._socket, ssl.SSLSocket):
            return
        with contextlib.suppress(OSError):  # it has ended already
            self._socket.shutdown(socket.SHUT_WR)

    def receive(self, timeout: float) -> bytes | None:
        """See ``Transport.receive``. Raises EngineError when the engine went away."""
        deadline = time.monotonic() + timeout
        look = FIRST_LOOK
        while not self._ended:
            left = max(0.0, deadline - time.monotonic())
            chunk = self._read(min(left, look))
            if chunk is None and left <= look:
                return None
            if chunk is None and not self._running():
                chunk = self._read(LAST_WORDS_SECONDS) or b""
            self._ended = chunk == b""
            if chunk and (payload := self._frames.feed(chunk)):
                return payload
            look = min(look * 4, LONGEST_LOOK) if chunk is None else FIRST_LOOK
        return b""

    def exit_code(self) -> int | None:
        """See ``Transport.exit_code``. Raises EngineError."""
        for _ in range(100):
            state = self._inspect()
            if not state["Running"]:
                return None if state["ExitCode"] is None else int(state["ExitCode"])
            time.sleep(0.05)
        return None

    def close(self) -> None:
        """Close the stream. The program, if it still runs, sees its input end."""
        response = getattr(self._holder, "_response", None)
        for resource in (response, self._holder, self._socket):
            if resource is not None:
                with contextlib.suppress(OSError):
                    resource.close()

    def _read(self, seconds: float) -> bytes | None:
        """Some raw bytes, None for silence, ``b""`` at the end."""
        if self._early:
            early, self._early = self._early, b""
            return early
        self._socket.settimeout(seconds)
        try:
            return self._socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return None
        except OSError:
            return b""

    def _running(self) -> bool:
        return bool(self._inspect()["Running"])

    def _inspect(self) -> Mapping[str, Any]:
        """What the engine knows about the program. Raises EngineError, and EngineGone from one that was away: it has
        forgotten whatever it ran before."""
        from docker.errors import NotFound

        with self._engine.trouble("say how a program ended"):
            try:
                state: Mapping[str, Any] = self._api.exec_inspect(self._id)
            except NotFound as error:
                what = f"The container engine at {self._engine.address} has forgotten a program. Was it restarted?"
                raise EngineGone(what, self._engine.answers) from error
        return state


def _bare(holder: Any) -> socket.socket:
    """The socket itself: the SDK wraps it in a file object on plain HTTP, and does not on TLS and SSH."""
    inner: socket.socket = getattr(holder, "_sock", holder)
    return inner


def _read_already(holder: Any, bare: socket.socket) -> bytes:
    """What came together with the headers of the engine's answer, where the program was quick or this thread slow: the
    SDK's reader of headers has it, and the socket does not any more."""
    reader = holder._response.raw._fp.fp
    if not hasattr(reader, "peek"):
        return b""
    bare.settimeout(0)
    try:
        return bytes(reader.peek())
    except ssl.SSLWantReadError:
        return b""


class _Frames:
    """The engine's multiplexed stream: a header of one stream number, three zeros and a length, then the payload."""

    def __init__(self) -> None:
        self._raw = bytearray()

    def feed(self, data: bytes) -> bytes:
        """The payload bytes that ``data`` completes."""
        self._raw += data
        out = bytearray()
        at = 0
        while len(self._raw) - at >= HEADER:
            end = at + HEADER + int.from_bytes(self._raw[at + 4 : at + HEADER], "big")
            if len(self._raw) < end:
                break
            out += self._raw[at + HEADER : end]
            at = end
        del self._raw[:at]
        return bytes(out)
