"""A wrapper around Harbor that ends with us, whatever ends us, and leaves no container:
``python keeper.py JOB ENGINE PROGRAM ARGUMENT...``.

Its standard input is a pipe whose other end only the runner holds. When that ends (the runner closed it, or died in any
way, a ``kill -9`` included), Harbor is interrupted and its containers are removed; whatever happens to Harbor itself,
they are removed once it is gone. JOB is the job's folder, whose folders are named as trials are; ENGINE is the command
line tool of the container engine, or empty where Harbor's environments are elsewhere. Before Harbor starts, what an
earlier run left (the machine went down, say) goes the same way. It runs as a plain script, apart from the package.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

GRACE_SECONDS = 75.0
"""How long an interrupted Harbor may take to write down what it has, answers that are paid for included."""
ENGINE_SECONDS = 60.0
PROJECT = "com.docker.compose.project"
"""Compose labels all that it makes; Harbor names a project after its trial."""
_QUIET_ROUNDS, _MOST_ROUNDS, _ROUND_SECONDS = 2, 20, 0.5
_PR_SET_CHILD_SUBREAPER = 36


def main(job: Path, engine: str, command: list[str]) -> int:
    """Run the command until it ends or standard input does; its exit code."""
    _adopt_orphans()
    sweep(job, engine)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the program inherits as the default
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    threading.Thread(target=_watch, args=(ending,), daemon=True).start()
    code = _wait(child, ending, lambda: sweep(job, engine))
    _kill_family()
    rounds = quiet = 0
    while quiet < (_QUIET_ROUNDS if ending.is_set() else 1) and rounds < _MOST_ROUNDS:
        # What an engine was asked for before Harbor died may still come.
        quiet = 0 if sweep(job, engine) else quiet + 1
        rounds += 1
        time.sleep(_ROUND_SECONDS if ending.is_set() else 0)
    return code if code >= 0 else 128 - code


def sweep(job: Path, engine: str) -> int:
    """Remove the containers, networks, volumes and images of a job's trials; how many containers there were."""
    if not engine or not job.is_dir():
        return 0
    trials = tuple(f"{_as_project(path.name)}__" for path in job.iterdir() if path.is_dir())
    projects = {name for name in _listed(engine, "ps", "--all") if name.startswith(trials)} if trials else set()
    for project in projects:
        _remove(engine, project)
    return len(projects)


def _remove(engine: str, project: str) -> None:
    only = ["--quiet", "--filter", f"label={PROJECT}={project}"]
    for listing, removing in (
        (["ps", "--all"], ["rm", "--force", "--volumes"]),
        (["network", "ls"], ["network", "rm"]),
        (["volume", "ls"], ["volume", "rm", "--force"]),
        (["image", "ls"], ["image", "rm", "--force"]),
    ):
        found = _engine(engine, *listing, *only).split()
        if found:
            _engine(engine, *removing, *found)


def _listed(engine: str, *words: str) -> list[str]:
    template = '{{.Label "' + PROJECT + '"}}'
    return _engine(engine, *words, "--filter", f"label={PROJECT}", "--format", template).split()


def _engine(engine: str, *words: str) -> str:
    """What the engine's tool prints; nothing when the engine is away, since then it runs no container either."""
    try:
        done = subprocess.run(
            [engine, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ENGINE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"keeper: {engine} {words[0]}: {error}", file=sys.stderr)
        return ""
    if done.returncode != 0:
        print(f"keeper: {engine} {words[0]}: {done.stderr.strip()}", file=sys.stderr)
    return done.stdout


def _as_project(name: str) -> str:
    """As Harbor makes a project's name (``_sanitize_docker_compose_project_name``)."""
    name = name.lower()
    return re.sub(r"[^a-z0-9_-]", "-", name if re.match(r"[a-z0-9]", name) else "0" + name)


def _wait(child: "subprocess.Popen[bytes]", ending: threading.Event, clear: Callable[[], object]) -> int:
    while child.poll() is None and not ending.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        clear()  # without its containers Harbor has nothing to wait for
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_SECONDS)
    if child.poll() is None:
        child.kill()
    return child.wait()


def _watch(ending: threading.Event) -> None:
    while os.read(0, 1):
        pass
    ending.set()


def _kill_family() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _adopt_orphans() -> None:
    """Linux: what Harbor's own children leave behind becomes our child, so that it is found."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
