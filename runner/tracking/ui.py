"""MLflow's web UI on a recipe's store, for ``endless ui``: a child process that ends when we do."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

from runner.domain.errors import MissingRequirement, UserError
from runner.tracking.address import artifact_root, default_uri, is_server, sqlite_file

START_SECONDS = 90.0
"""How long the server may take until it answers; the first start on a slow machine takes many seconds."""
_STOP_SECONDS = 5.0
_EVERYWHERE = ("0.0.0.0", "::")
_TAIL = 1500

log = logging.getLogger(__name__)


def serve(
    store: str | Path, host: str = "127.0.0.1", port: int = 5000, *, ready: Callable[[str], None] = log.info
) -> None:
    """Show a store until Ctrl-C (or SIGTERM), then stop the server.

    ``store`` is an outputs folder or a tracking address; ``ready`` gets the UI's address once it answers; port 0
    takes a free one. An address that is a server already has its own UI: it is handed to ``ready`` and that is all.
    Raises UserError when there is no such store or the port is taken, MissingRequirement when MLflow will not start.
    """
    uri = str(store) if "://" in str(store) else default_uri(Path(store))
    if is_server(uri):
        ready(uri)
        return
    with _termination_as_interrupt(), running(uri, host, port) as (address, process):
        ready(address)
        with contextlib.suppress(KeyboardInterrupt):
            process.wait()


@contextlib.contextmanager
def running(uri: str, host: str, port: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A server on this store and the address of its UI, once it answers; stopped on leaving."""
    file = sqlite_file(uri)
    if file is not None and not file.is_file():
        raise UserError(f"no runs are tracked at {file} yet: `endless run` makes the store")
    port = _checked_port(host, port)
    address = f"http://{'127.0.0.1' if host in _EVERYWHERE else host}:{port}"
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            _command(uri, host, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | _environment(),
            start_new_session=True,  # Ctrl-C reaches us alone, and its workers are one group to stop
        )
        try:
            _await(address, process, output)
            yield address, process
        finally:
            _stop(process)


def _command(uri: str, host: str, port: int) -> list[str]:
    """One worker is enough for one reader. Artifacts are read where their runs say they are."""
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri]
    command += ["--host", host, "--port", str(port), "--workers", "1"]
    artifacts = artifact_root(uri)
    return command if artifacts is None else [*command, "--artifacts-destination", artifacts.as_uri()]


def _environment() -> dict[str, str]:
    """No telemetry and none of the background jobs that the UI does not need."""
    return {
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def _checked_port(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises UserError when it cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from None
        return int(probe.getsockname()[1])


def _await(address: str, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _answers(address):
            return
        time.sleep(0.1)
    output.seek(0)
    tail = output.read().decode(errors="replace")[-_TAIL:].strip()
    raise MissingRequirement(f"MLflow's server did not start:\n{tail}")


def _answers(address: str) -> bool:
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{address}/health", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server politely, then whatever is left of its group: workers may outlive their parent."""
    _signal_group(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """SIGTERM would otherwise leave the server behind. Signals are the main thread's; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
