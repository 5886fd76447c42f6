"""Turning a setup script into a layer: a tar file of what it changed, content-addressed in the cache."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import EngineError
from runner.sandbox.advice import KILLED, advised
from runner.sandbox.base import BuildFailure
from runner.sandbox.disk import abandoned
from runner.sandbox.local.limits import build_limits
from runner.sandbox.local.nursery import Stage
from runner.sandbox.local.process import Program
from runner.sandbox.reading import collect_tail
from runner.sandbox.shell import AGENT_ENV
from runner.schema import Sandbox as Settings

LOG_BYTES = 20_000
_SCRIPT = "/run/endless/setup.sh"
_TOOLS = "/run/endless/bin"
_WRITE = f"cat >{_SCRIPT}"
_SINGLE_USER = f"mkdir {_TOOLS}; for tool in chown chgrp; do ln -s /bin/true {_TOOLS}/$tool; done"
"""Where there is one user only, giving files away does nothing, rather than fail."""


def run_setup(stage: Stage, script: str, timeout: float, settings: Settings, *, single: bool) -> BuildFailure | None:
    """Run a setup script as the sandbox's root; None is success. Raises EngineError."""
    path = AGENT_ENV["PATH"]
    env = {name: os.environ[name] for name in settings.build_env if name in os.environ}
    env |= {"DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", "LANG": "C.UTF-8"}
    env["PATH"] = f"{_TOOLS}:{path}" if single else path
    space = stage.open_space()
    try:
        _put(stage, space, script, single=single)
        program = Program(argv=["bash", _SCRIPT], agent=False, env=env, limits=build_limits())
        return _run(stage, space, program, timeout)
    finally:
        stage.close_space(space)


def _put(stage: Stage, space: int, script: str, *, single: bool) -> None:
    """The script lies where only root looks, in a place that is not kept."""
    command = f"{_WRITE}; {_SINGLE_USER}" if single else _WRITE
    program = Program(argv=["/bin/sh", "-ec", command], agent=False, env={"PATH": AGENT_ENV["PATH"]})
    source = os.memfd_create("setup")
    try:
        with os.fdopen(os.dup(source), "wb") as file:
            file.write(script.encode("utf-8", "surrogateescape"))
        os.lseek(source, 0, os.SEEK_SET)
        process = stage.start(space, program, stdin=source)
        try:
            said, _ = collect_tail(process, 60.0, LOG_BYTES)
            if process.exit_code() != 0:
                raise EngineError(
                    advised(f"A setup script could not be put in place: {said.decode('utf-8', 'replace')}")
                )
        finally:
            process.close()
    finally:
        os.close(source)


def _run(stage: Stage, space: int, program: Program, timeout: float) -> BuildFailure | None:
    empty = os.open(os.devnull, os.O_RDONLY)
    try:
        process = stage.start(space, program, stdin=empty)
    finally:
        os.close(empty)
    try:
        tail, late = collect_tail(process, timeout, LOG_BYTES)
        code = None if late else process.exit_code()
    finally:
        process.close()
    log = tail.decode("utf-8", "replace")
    if late:
        return BuildFailure(log=log, timed_out=True)
    if code is None:
        raise EngineError(f"A sandbox ended while its setup script ran. {KILLED}")
    return BuildFailure(log=f"{log.rstrip()}\n(exit code {code})".lstrip()) if code else None


def found(layer: Path) -> bool:
    """Whether a layer is there; from now on it counts as used just now. Raises EngineError."""
    try:
        os.utime(layer)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise EngineError(
            f"The built environment {layer} cannot be used: {error.strerror}. Delete it: it is built anew."
        ) from error
    return True


@contextmanager
def new_layer(path: Path) -> Iterator[int]:
    """A descriptor to write a layer to; when all went well, the file appears whole under ``path``.

    Raises EngineError when it cannot be written.
    """
    partial = path.with_name(f"{path.stem}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        partial.rename(path)
    except OSError as error:
        raise EngineError(advised(f"A built environment could not be kept in {path.parent}: {error}")) from error
    finally:
        with contextlib.suppress(OSError):  # it has its name now, or could not be made
            partial.unlink()


def remove_abandoned(folder: Path) -> None:
    """Delete half-written layers whose writer is dead."""
    for partial in abandoned(folder):
        partial.unlink(missing_ok=True)
