"""Running the ``apptainer`` program: its command lines and its environment."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from runner.domain.errors import MissingRequirement

BASE_MOUNT, GRADER_MOUNT, CODE_MOUNT = "/mnt", "/srv", "/media"
"""Where the nursery's container shows things: folders that every distribution has. Sandboxes do not see it so."""

SIF = ".sif"
OF_APPTAINER = (".singularity.d", ".exec", ".run", ".shell", ".test", "environment", "singularity")
"""What Apptainer adds to an image's root, and needs only where an image is started by itself."""
_PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_RUNTIME_DIR"),
    *("APPTAINER_CACHEDIR", "APPTAINER_TMPDIR", "APPTAINER_CONFIGDIR"),
)
_FOR_REGISTRIES = ("APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD", "DOCKER_CONFIG")


def program() -> str:
    """The path of ``apptainer``. Raises MissingRequirement."""
    found = shutil.which("apptainer")
    if found is None:
        raise MissingRequirement("apptainer is not installed (https://apptainer.org), or not on PATH (`module load`?)")
    return found


def environment(names: Iterable[str] = ()) -> dict[str, str]:
    """What apptainer itself needs, and the variables ``names``; nothing else of ours, not its APPTAINER_BIND either."""
    return {name: os.environ[name] for name in (*_PASSED_ON, *names) if name in os.environ}


def build_environment(names: Iterable[str], scratch: Path) -> dict[str, str]:
    """For one build: a place for temporary files of its own, access to registries, and quick compression (Apptainer
    1.4 and later; measured: a third of the time, 7 % larger)."""
    own = {"APPTAINER_TMPDIR": str(scratch), "APPTAINER_MKSQUASHFS_ARGS": "-comp gzip -Xcompression-level 1"}
    return environment((*_FOR_REGISTRIES, *names)) | own


def exec_argv(
    image: Path,
    mounts: Mapping[Path, str],
    argv: Iterable[str],
    *,
    writable: Path | None = None,
    partition: int | None = None,
) -> list[str]:
    """Execute a program as (fake) root in a container that shares nothing but the network, ``mounts`` (folder, or .sif
    -> where it is shown, read-only) and ``writable``, at /mnt. ``partition``: which one of a .sif is meant. The
    network is taken from each sandbox by itself, inside."""
    shown = []
    for source, target in mounts.items():
        inside = f",image-src=/,id={partition}" if source.suffix == SIF else ""
        shown += ["--mount", f"{_mount(source, target)},ro{inside}"]
    shown += [] if writable is None else ["--mount", _mount(writable, "/mnt")]
    options = ["--fakeroot", "--ignore-fakeroot-command", "--containall", "--cleanenv", "--no-home", "--pwd", "/"]
    return [program(), "--silent", "exec", *options, *shown, str(image), *argv]


def build_argv(target: Path, definition: Path, arguments: Mapping[str, str]) -> list[str]:
    """Build a definition file to a folder, or to a .sif."""
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    form = [] if target.suffix == SIF else ["--sandbox"]
    return [program(), "build", "--fakeroot", *form, *given, str(target), str(definition)]


def _mount(source: Path, target: str) -> str:
    """Comma-separated values with quotes, so that any path will do."""
    quoted = str(source).replace('"', '""')
    return f'type=bind,"source={quoted}",destination={target}'
