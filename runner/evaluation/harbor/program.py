"""Harbor as a program: the Python that has it, and a process that never outlives us."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import MissingRequirement
from runner.evaluation.harbor import keeper
from runner.store.jsonl import storage_errors

OLDEST = (3, 12)
INSTALL = (
    "python3.12 -m venv DIR; DIR/bin/pip install 'endless-terminals[harbor]' "
    "(in a checkout: DIR/bin/pip install -e '.[harbor]'); then set eval.terminalbench.python to DIR/bin/python"
)
_START = "import sys; sys.argv[0] = 'harbor'; from harbor.cli.main import app; app()"
_LOOK = "import sys; print(*sys.version_info[:2])"
_PARTS = "import importlib.metadata as m; m.version('harbor'); import runner, openai, anthropic, jinja2"
_PROBE_SECONDS = 120.0
_STOP_SECONDS = 150.0
_COMPOSED = {"docker": "docker", "podman": "podman"}
"""Harbor's environments that are containers of an engine on this machine -> its command line tool."""


def require_harbor(python: str | None, env: Mapping[str, str]) -> str:
    """The path of a Python that can run Harbor with our agent. Raises MissingRequirement with what to install."""
    path = shutil.which(python or sys.executable)
    if path is None:
        raise MissingRequirement(f"eval.terminalbench.python is {python!r}, and there is no such program; {INSTALL}")
    code, said = _ask(path, _LOOK, env)
    version = tuple(int(word) for word in said.split() if word.isdigit())
    if code != 0 or len(version) != 2:
        raise MissingRequirement(f"eval.terminalbench.python: {path} is no Python that runs here; {INSTALL}")
    if version < OLDEST:
        found = ".".join(map(str, version))
        raise MissingRequirement(
            f"Harbor needs Python {OLDEST[0]}.{OLDEST[1]}, and {path} is Python {found}; {INSTALL}"
        )
    code, said = _ask(path, _PARTS, env)
    if code != 0:
        last = said.strip().splitlines()[-1:] or ["it ended without a word"]
        raise MissingRequirement(f"{path} cannot run Harbor ({last[0]}); {INSTALL}")
    return path


def engine_of(environment: str) -> str:
    """The container engine's tool behind one of Harbor's environments; empty where there is none on this machine.

    Raises MissingRequirement where Harbor will not find it. For ``module:Class`` it is Docker's, if there is one.
    """
    if ":" in environment:
        return shutil.which("docker") or ""
    tool = _COMPOSED.get(environment)
    if tool is None:
        return ""
    path = shutil.which(tool)
    if path is None or _run([path, "compose", "version"]) != 0:
        raise MissingRequirement(
            f"eval.terminalbench.environment is {environment!r}, for which Harbor needs `{tool} compose`; install "
            f"{tool} with its compose plugin, or choose another of Harbor's environments"
        )
    return path


@contextmanager
def started(
    python: str, words: Sequence[str], env: Mapping[str, str], *, job: Path, engine: str, log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start ``harbor WORDS``; when the context is left it is gone, and so are its containers. Raises StorageError."""
    keeping = [sys.executable, "-P", str(Path(keeper.__file__)), str(job), engine]
    with storage_errors(log), log.open("ab") as file:
        process = subprocess.Popen(
            [*keeping, python, "-c", _START, *words],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=job.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ask(python: str, program: str, env: Mapping[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [python, "-c", program], env=dict(env), capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def _run(words: Sequence[str]) -> int:
    try:
        done = subprocess.run(words, capture_output=True, timeout=_PROBE_SECONDS, check=False, env=dict(os.environ))
    except (OSError, subprocess.TimeoutExpired):
        return 1
    return done.returncode
