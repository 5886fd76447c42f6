"""The base image as a folder, or one .sif file, in the cache, built once from ``sandboxes/base/apptainer.def``."""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.domain.errors import EngineError
from runner.sandbox.advice import OTHER_BASE, advised
from runner.sandbox.apptainer.command import OF_APPTAINER, SIF, build_argv, build_environment, program
from runner.sandbox.apptainer.machine import output, remove
from runner.sandbox.disk import abandoned
from runner.schema import Sandbox as Settings
from runner.share import share_dir

BASE_SECONDS = 1800
"""The base image may have to be fetched over a slow line, and its packages too."""
LOG_BYTES = 4000
_WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""However abruptly we end, the build does too (that is, with the thread that waits for it)."""
_PROCEDURE = "2"
"""Part of every base's name: raise it when the way they are made changes."""

_SYSTEM = re.compile(r"^(\d+)\s.*FS \(Squashfs/\*System", re.MULTILINE)


def ensure_base(settings: Settings, folder: Path) -> Path:
    """The base image, a folder or a file below ``folder``, built if it is not there yet. Safe under concurrent callers
    and kill -9. Raises EngineError, and MissingRequirement where there is no Apptainer."""
    final = folder / (base_key(settings) + (SIF if settings.sif else ""))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(final.with_suffix(".lock")):
            if not final.exists():
                _build(settings, final)
    except OSError as error:
        raise EngineError(advised(f"The base image could not be made in {folder}: {error}")) from error
    return final


def partition(sif: Path) -> int:
    """Which partition of a .sif holds the files. Raises EngineError, MissingRequirement."""
    found = _SYSTEM.search(output([program(), "sif", "list", str(sif)]))
    if found is None:
        raise EngineError(f"{sif} holds no file system: remove it, and it is built again")
    return int(found[1])


def base_key(settings: Settings) -> str:
    """Names a base image by all that goes into it."""
    bootstrap, source = origin(settings.base_image)
    parts = [_PROCEDURE, _definition().read_text(encoding="utf-8"), bootstrap, source]
    parts += ["sif"] if settings.sif else []
    if source.startswith("/") and Path(source).exists():
        status = Path(source).stat()
        parts += [str(status.st_size), str(status.st_mtime_ns)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:20]


def origin(base_image: str) -> tuple[str, str]:
    """The ``Bootstrap:`` and ``From:`` of a definition file. ``ubuntu:22.04`` is an image of a Docker registry; a
    path is a folder, a .sif or, ending in .tar, what ``docker save`` writes."""
    scheme, slashes, rest = base_image.partition("://")
    if slashes:
        return scheme, rest
    if not base_image.startswith(("/", "./", "../")):
        return "docker", base_image
    path = Path(base_image).absolute()
    return "docker-archive" if path.suffix == ".tar" else "localimage", str(path)


def remove_abandoned(folder: Path) -> None:
    """Delete the half-made folders of dead processes."""
    for partial in abandoned(folder):
        remove(partial)


def _definition() -> Path:
    return share_dir("sandboxes") / "base" / "apptainer.def"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.utime(lock.fileno())  # its time is the image's last use
        yield


def _build(settings: Settings, final: Path) -> None:
    """Build beside the final place and rename. Raises EngineError, OSError."""
    with _scratch(final) as scratch:
        definition = scratch / "base.def"
        shutil.copyfile(_definition(), definition)
        bootstrap, source = origin(settings.base_image)
        image = scratch / f"image{final.suffix}"
        argv = build_argv(image, definition, {"bootstrap": bootstrap, "from": source})
        limited = [*_WITH_US, "timeout", "--kill-after=10", str(BASE_SECONDS), *argv]
        environment = build_environment(settings.build_env, scratch)
        with tempfile.TemporaryFile() as log:  # not a pipe, which what a script left running would hold open
            done = subprocess.run(
                limited, cwd=scratch, env=environment, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_BYTES))
            said = log.read().decode("utf-8", "replace").strip()
        if done.returncode != 0:
            raise EngineError(
                f"Apptainer could not build the base image from {bootstrap}://{source}: {said}\n{OTHER_BASE}"
            )
        if image.is_dir():
            _bare(image)
        image.rename(final)


def _bare(image: Path) -> None:
    """Remove what only Apptainer needs, and only where an image is started by itself, and its stand-ins for devices."""
    for path in (*(image / name for name in OF_APPTAINER), *(image / "dev").iterdir()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _scratch(final: Path) -> Iterator[Path]:
    """A folder for one build: its result and temporary files, as open to others as the cache is."""
    scratch = final.with_name(f"{final.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    scratch.mkdir()
    try:
        scratch.chmod(final.parent.stat().st_mode & 0o7777)
        yield scratch
    finally:
        remove(scratch)
