"""``vllm serve``, started when the first call comes, awaited, shared by all callers, and never left behind."""

import contextlib
import http.client
import logging
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from runner import schema
from runner.domain.errors import MissingRequirement, ProviderError, RecipeError, UserError
from runner.llm import lifeline
from runner.llm.base import key_of
from runner.llm.server_log import last_lines
from runner.store import scratch as store
from runner.store.jsonl import unwritable

_log = logging.getLogger(__name__)

INSTALL = "pip install 'endless-terminals[train]' (a machine without a GPU: see configs/llm/vllm.yaml)"
_HOST = "127.0.0.1"
_POLL_SECONDS = 0.2
_REPORT_SECONDS = 15.0
_STOP_SECONDS = 30.0
_TAIL_LINES = 12
_SHOWN_CHARS = 120
_CPU_BUILD = "No package metadata was found for vllm"
_CPU_HINT = "the CPU build has no working `vllm serve`, see configs/llm/vllm.yaml for what to start instead; "
_MAX_STARTS = 3
_LONGEST_FOLDER = 70
"""Characters: a socket's path has 107 at most, and its name 36."""


class VllmServer:
    """One server process. Use as a context manager, or ``close``. Thread-safe."""

    def __init__(self, model: schema.Model, log: Path, *, role: str = "model", api_key: str | None = None) -> None:
        """Nothing is started yet. ``log`` takes what the server prints."""
        self._model = model
        self._log_path = log
        self._role = role
        self._api_key = api_key
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._starts = 0
        self._failure: UserError | None = None
        self._closed = False
        self._scratch = contextlib.ExitStack()

    def address(self) -> str:
        """The base URL of a server that answers; the first caller starts it and all wait.

        Raises MissingRequirement when the program is absent, RecipeError when it does not come up (with the last
        lines of its log), ProviderError when it keeps dying. A start that failed is not tried again.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._process is None or self._process.poll() is not None:
                self._start_once()
            return f"http://{_HOST}:{self._port}/v1"

    def close(self) -> None:
        """Stop the server and all its processes. Idempotent."""
        with self._lock:
            self._closed = True
            self._stop()

    def __enter__(self) -> "VllmServer":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _start_once(self) -> None:
        if self._closed or self._starts >= _MAX_STARTS:
            state = "is closed" if self._closed else f"died {self._starts} times"
            raise ProviderError(f"{key_of(self._role)}: the vLLM server {state}; {self._last_words()}")
        self._starts += 1
        self._stop()
        try:
            self._start()
            self._await()
        except UserError as error:
            self._stop()
            self._failure = error
            raise
        except BaseException:
            self._stop()
            raise

    def _start(self) -> None:
        program = find_program(self._model, self._role)
        vllm = self._model.vllm
        self._port = _free_port()
        command = [program, *vllm.command[1:], self._model.name, "--host", _HOST, "--port", str(self._port), *vllm.args]
        key = {"VLLM_API_KEY": self._api_key} if self._api_key else {}
        env = {**os.environ, **self._place_for_sockets(), **vllm.env, **key}
        _log.info("%s: starting vLLM, its log is %s", key_of(self._role), _from_here(self._log_path))
        try:
            self._log_path.parent.mkdir(parents=True, exist_ok=True)
            log = self._log_path.open("ab")
        except OSError as error:
            raise unwritable(self._log_path, error) from error
        with log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(lifeline.__file__)), *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
            )

    def _place_for_sockets(self) -> dict[str, str]:
        """A temporary folder of its own: a killed vLLM leaves its sockets. None where their names get too long."""
        folder = str(self._scratch.enter_context(store.scratch("vllm")))
        return {"TMPDIR": folder} if len(folder) <= _LONGEST_FOLDER else {}

    def _await(self) -> None:
        assert self._process is not None
        began = reported = time.monotonic()
        limit = self._model.vllm.start_seconds
        while not _healthy(self._port):
            now = time.monotonic()
            code = self._process.poll()
            if code is not None:
                raise RecipeError(
                    f"{key_of(self._role)}: the vLLM server ended with exit code {code} before it answered; "
                    f"check {key_of(self._role)}.name and .vllm; {self._last_words()}"
                )
            if now - began > limit:
                raise RecipeError(
                    f"{key_of(self._role)}: the vLLM server did not answer within {limit:g} s; "
                    f"raise {key_of(self._role)}.vllm.start_seconds; {self._last_words()}"
                )
            if now - reported > _REPORT_SECONDS:
                reported = now
                _log.info("%s: waiting for vLLM, %.0f s: %s", key_of(self._role), now - began, _latest(self._log_path))
            time.sleep(_POLL_SECONDS)
        _log.info("%s: vLLM answers after %.0f s", key_of(self._role), time.monotonic() - began)

    def _stop(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()  # the lifeline ends the server when this pipe ends
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._scratch.close()

    def _last_words(self) -> str:
        lines = "\n".join(last_lines(self._log_path, _TAIL_LINES)) or "(nothing)"
        hint = _CPU_HINT if _CPU_BUILD in lines else ""
        return f"{hint}the last lines of {self._log_path}:\n{lines}"


def find_program(model: schema.Model, role: str) -> str:
    """The path of the server program. Raises MissingRequirement with how to get it."""
    if not model.vllm.command:
        raise RecipeError(f"{key_of(role)}.vllm.command is empty; the default is [vllm, serve]")
    program = model.vllm.command[0]
    found = shutil.which(program)
    if found is None:
        raise MissingRequirement(
            f"{key_of(role)} needs the program {program!r}, which is not on this machine; "
            f"install it with {INSTALL}, or set {key_of(role)}.base_url to a server that runs elsewhere"
        )
    return found


def _from_here(path: Path) -> Path:
    """As short as a shell would take it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _latest(log: Path) -> str:
    return "".join(last_lines(log, 1))[:_SHOWN_CHARS]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _healthy(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection(_HOST, port, timeout=5)) as connection:
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
