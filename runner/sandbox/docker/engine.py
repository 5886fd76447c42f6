"""The connection to a container engine: where it is, what it is, and its errors in our terms."""

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.domain.errors import EngineError, EngineGone
from runner.sandbox.starting import Places

if TYPE_CHECKING:
    from docker import DockerClient

log = logging.getLogger(__name__)

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
CALL_SECONDS = 300
"""No single call to the engine takes longer, commits of large images included; beyond it, the engine hangs."""
LOOK_SECONDS, ANSWER_SECONDS = 0.5, 5.0
"""How often an engine that has gone is looked for, by all threads together, and how long it may take to answer then."""
_SOCKET_SCHEMES = ("unix://", "http+unix://")
_PASSING = (ConnectionResetError, BrokenPipeError, BlockingIOError)
"""The last is a Unix socket whose queue of connections is full."""


class Engine:
    """One engine's client, connected at first use and shared by all threads."""

    def __init__(self, address: str | None, *, connections: int = 64, at_once: int = 8) -> None:
        """``at_once``: how many containers ``turn`` lets restart or end at the same time."""
        self.address = address or find_address()
        self.behind: deque[str] = deque()
        """Containers that could not be removed when nobody needed them any more."""
        self._connections = connections
        self._turns = Places(at_once)
        self._lock = threading.Lock()
        self._client: DockerClient | None = None
        self._version: dict[str, Any] = {}
        self._looking = threading.Lock()
        self._absent_until = 0.0

    @property
    def client(self) -> "DockerClient":
        """The SDK's client. Raises EngineError when the engine does not answer."""
        with self._lock:
            if self._client is None:
                with self.trouble("connect"):
                    self._client = connect(self.address, CALL_SECONDS, self._connections)
            return self._client

    @property
    def connected(self) -> bool:
        """Whether anything was asked of the engine yet."""
        return self._client is not None

    @property
    def version(self) -> dict[str, Any]:
        """What the engine says about itself."""
        if not self._version:
            with self.trouble("ask for its version"):
                self._version = self.client.version()
        return self._version

    @property
    def podman(self) -> bool:
        """Podman answers on this socket."""
        components = self.version.get("Components") or []
        return any("podman" in str(component.get("Name", "")).lower() for component in components)

    @cached_property
    def build_network(self) -> str | None:
        """What Dockerfiles are built on when the recipe does not say: the engine's default (None), or the host's where
        the engine was set up without one, since BuildKit cannot build on a bridge that is not there."""
        with self.trouble("list its networks"):
            names = {network["Name"] for network in self.client.api.networks()}
        if self.podman or "bridge" in names:
            return None
        log.info("this engine has no bridge network: Dockerfiles are built on the host's (sandbox.build_network)")
        return "host"

    def turn(self) -> AbstractContextManager[None]:
        """Wait for one's turn at what engines do almost one by one. They accept it from hundreds at once, but then lose
        track of some of the containers."""
        return self._turns.taken()

    @contextmanager
    def trouble(self, doing: str) -> Iterator[None]:
        """Turn what the SDK raises while ``doing`` something into EngineError, or EngineGone where nothing answers."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except (DockerException, RequestException, HTTPError, OSError) as error:
            what = describe(doing, self.address, error)
            if _was_answered(error) or self.answers():
                raise EngineError(what) from error
            raise EngineGone(what, self.answers) from error

    def answers(self) -> bool:
        """Whether the engine is there. Many threads may ask at once: a "no" serves all of them for a moment."""
        with self._looking:
            if time.monotonic() < self._absent_until:
                return False
            found = _answers(self.address)
            if not found:
                self._absent_until = time.monotonic() + LOOK_SECONDS
            return found

    def close(self) -> None:
        """Let go of the connections; the next use connects again."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def connect(address: str, seconds: float, connections: int = 4) -> "DockerClient":
    """A client that has spoken to the engine. Raises what the SDK raises."""
    import docker
    from docker.transport.unixconn import UnixHTTPConnection

    UnixHTTPConnection.connect = _connect_or_close  # type: ignore[method-assign, assignment]
    environment = {**os.environ, "DOCKER_HOST": address}
    client = docker.from_env(environment=environment, timeout=int(seconds), max_pool_size=connections)
    if address.startswith(_SOCKET_SCHEMES):
        client.api.trust_env = False  # no socket has a proxy; to look for one takes a fifth of a request's CPU
    return client


def _connect_or_close(connection: Any) -> None:
    """The SDK's own method, but for one thing: that one leaves its socket open where nobody listens, until the garbage
    collector comes by. Hundreds of episodes that look for a daemon which has died would run out of descriptors."""
    attempt = socket.socket(socket.AF_UNIX)
    try:
        attempt.settimeout(connection.timeout)
        attempt.connect(connection.unix_socket)
    except OSError:
        attempt.close()
        raise
    connection.sock = attempt


def find_address() -> str:
    """Where the engine listens: DOCKER_HOST, the docker CLI's current context, or a socket in a usual place."""
    if address := os.environ.get("DOCKER_HOST"):
        return address
    if address := _context_address():
        return address
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/run/user/0")
    for path in ("/var/run/docker.sock", f"{runtime}/podman/podman.sock", "/run/podman/podman.sock"):
        if Path(path).exists():
            return f"unix://{path}"
    return DEFAULT_ADDRESS


def _context_address() -> str:
    """The address of a context chosen with ``docker context use`` (Docker Desktop, rootless, Colima)."""
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        context = ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError):
        return ""
    if context is None or context.Name == "default":
        return ""
    return str(context.Host or "")


def _answers(address: str) -> bool:
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        connect(address, ANSWER_SECONDS).close()
    except (DockerException, RequestException, OSError):
        return False
    return True


def _was_answered(error: BaseException) -> bool:
    """It is an error that the engine reported, and not one of reaching it."""
    return getattr(error, "response", None) is not None


def passes(error: EngineError) -> bool:
    """Whether an engine's trouble is likely over in a second, so that the same is worth another try: an internal error
    (5xx) or a dropped connection of a busy engine. A full disk, a dead engine and one that has not answered for minutes
    are not."""
    cause = error.__cause__
    if isinstance(error, EngineGone):
        return False
    if (status := getattr(getattr(cause, "response", None), "status_code", None)) is not None:
        return int(status) >= 500 and "no space left" not in str(error).lower()
    return cause is not None and any(isinstance(inner, _PASSING) for inner in _nested(cause))


def describe(doing: str, address: str, error: BaseException) -> str:
    """One line: what could not be done, why, and what to do about it."""
    cause = str(getattr(error, "explanation", None) or _system_error(error) or error).strip().splitlines()
    reason = cause[0] if cause else type(error).__name__
    return f"The container engine at {address} could not {doing}: {reason}. {_remedy(reason, error)}"


def _system_error(error: BaseException) -> str:
    """What the operating system said, if that is at the bottom of it: the SDK wraps it several times over."""
    return next((str(inner.strerror) for inner in _nested(error) if isinstance(inner, OSError) and inner.strerror), "")


def _nested(error: BaseException) -> Iterator[BaseException]:
    """What an error was made of, innermost first."""
    for inner in (*error.args, error.__cause__):
        if isinstance(inner, BaseException):
            yield from _nested(inner)
    yield error


def _remedy(reason: str, error: BaseException) -> str:
    lower = reason.lower()
    if "no space left" in lower:
        return "Free some disk space (`docker system df` shows what takes it)."
    if "toomanyrequests" in lower or "rate limit" in lower:
        return "The registry limits pulls: `docker login`, or wait."
    if "permission denied" in lower and ("socket" in lower or "connection" in lower):
        return "Your user may not use its socket: join the group `docker`, or use rootless Docker or Podman."
    if getattr(error, "response", None) is None:
        return "Is the daemon running? `endless doctor` checks it."
    return "`endless doctor` checks the engine."
