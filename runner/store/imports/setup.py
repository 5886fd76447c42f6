"""An Apptainer definition as a ``setup.sh``: what it copies, its environment, and ``%post`` as Apptainer would run it.

``%post`` runs under ``/bin/sh -e`` (or what ``-c`` names) from a file, since bash reads some scripts otherwise than the
dash that they were written for. The base image has the agent's user already, so making it again is no error.
"""

import base64
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from runner.domain.errors import TaskFormatError
from runner.domain.task import is_private
from runner.store.imports.definition import Definition, Section, file_pairs

PROFILE = "/etc/profile.d/endless-task.sh"
MOST_BYTES = 4 << 20
"""Of copied files: a setup script is a text that people read."""
_DEBIAN = ("docker", "docker-daemon", "docker-archive", "oci", "oci-archive", "oras", "library", "shub", "localimage")
_OUR_BASE = re.compile(r"ubuntu[:_-]?v?22\.04", re.IGNORECASE)
_STANDARD = re.compile(
    r"(export\s+)?(HOME=/home/user/?|(USER|LOGNAME)=user|(LANG|LC_ALL)=C(\.UTF-8)?|PATH=(\$PATH|/[\w/]*bin|:)+)"
    r"|chmod\s+\S+\s+/home/user/?"
)
_FETCHES = re.compile(r"\b(apt(-get)?\s+(-\S+\s+)*(update|install)|pip3?\s+install|curl\s|wget\s|git\s+clone)")
_NO_ERROR = """\
# The base image has the user already: making it again is no error.
exists() { for last in "$@"; do :; done; getent "$kind" "$last" >/dev/null; }
useradd() { kind=passwd; exists "$@" || command useradd "$@"; }
adduser() { kind=passwd; exists "$@" || command adduser "$@"; }
groupadd() { kind=group; exists "$@" || command groupadd "$@"; }
"""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A setup script, and what a person should know about it."""

    script: str
    notes: tuple[str, ...] = ()


def render(definition: Definition, folder: Path) -> Setup:
    """``folder`` holds the files that the definition copies. Raises TaskFormatError where no script can do the same."""
    _refuse(definition)
    parts = [
        f"#!/bin/bash\n# Made from container.def ({definition.base}).\nset -e\nwork=$(mktemp -d)\n",
        *_files(definition, folder),
        *_environment(definition),
        *(_post(section) for section in definition.named("post")),
        'rm -rf -- "$work"\n',
    ]
    return Setup(script="\n".join(parts), notes=tuple(_notes(definition)))


def _refuse(definition: Definition) -> None:
    bootstrap = definition.header["bootstrap"].lower()
    if bootstrap not in (*_DEBIAN, "debootstrap"):
        raise TaskFormatError(
            f"container.def starts from {definition.base}; only bases like Ubuntu or Debian can be used"
        )
    if definition.named("setup"):
        raise TaskFormatError(
            "container.def has a %setup, which runs on the building machine, outside of the container"
        )
    if definition.named("arguments"):
        raise TaskFormatError("container.def has %arguments (a template); fill them in first")
    if any(section.name.startswith("app") for section in definition.sections):
        raise TaskFormatError("container.def installs apps (%appinstall and the like), which have no counterpart here")


def _notes(definition: Definition) -> Iterator[str]:
    if not _OUR_BASE.search(definition.header.get("from", "")):
        yield f"it was made for {definition.base}; it is built on sandbox.base_image (Ubuntu 22.04 by default)"
    if any(_FETCHES.search(section.body) for section in definition.named("post")):
        yield "%post fetches packages: building it needs a network"
    if variables := _own_lines(definition):
        said = "; ".join(variables)[:120]
        yield f"%environment is in {PROFILE}, which the agent's shell does not read by itself: {said}"
    if definition.named("startscript"):
        yield "%startscript is left out: write an environment/start.sh if services are to run"


def _own_lines(definition: Definition) -> list[str]:
    """The lines of ``%environment`` that the agent's shell does not have anyway."""
    lines = [line.strip() for section in definition.named("environment") for line in section.body.splitlines()]
    return [line for line in lines if line and not line.startswith("#") and not _STANDARD.fullmatch(line)]


def _environment(definition: Definition) -> Iterator[str]:
    yield f"export APPTAINER_ENVIRONMENT={PROFILE} SINGULARITY_ENVIRONMENT={PROFILE}\n"
    if _own_lines(definition):
        body = "\n".join(section.body for section in definition.named("environment"))
        yield f"# %environment\n{_heredoc(body, shlex.quote(PROFILE))}"


def _post(section: Section) -> str:
    shell = section.arguments.removeprefix("-c").strip() if section.arguments.startswith("-c") else "/bin/sh"
    file = '"$work/post"'
    return f"# %post\n{_heredoc(_NO_ERROR + section.body, file)}{shell} -e {file} </dev/null\n"


def _files(definition: Definition, folder: Path) -> Iterator[str]:
    total = 0
    for section in definition.named("files"):
        if section.arguments:
            raise TaskFormatError(f"%files {section.arguments} copies from another build stage")
        for source, destination in file_pairs(section):
            found = _sources(folder, source)
            total += sum(path.stat().st_size for path in found.values())
            if total > MOST_BYTES:
                raise TaskFormatError(f"%files copies more than {MOST_BYTES >> 20} MiB, too much for a setup script")
            yield _copied(found, source, destination)


def _copied(found: dict[str, Path], source: str, destination: str) -> str:
    """Write the files below ``$work``, then copy as Apptainer does: what cp makes of a destination depends on what is
    there when it runs."""
    lines = [f"# %files {source} {destination}\n"]
    for name, path in found.items():
        place = f'"$work"/files/{shlex.quote(name)}'
        lines.append(f'mkdir -p -- "$(dirname -- {place})"\n')
        lines.append(_literal(path.read_bytes(), place))
        if path.stat().st_mode & 0o100:
            lines.append(f"chmod 755 -- {place}\n")
    tops = dict.fromkeys(_top(name, source) for name in found)
    sources = " ".join(f'"$work"/files/{shlex.quote(top)}' for top in tops)
    target = shlex.quote(destination)
    lines.append(f'mkdir -p -- "$(dirname -- {target}x)"\ncp -fLr -- {sources} {target}\n')
    return "".join(lines)


def _top(name: str, source: str) -> str:
    """The part of a found file's path that the source pattern named: the file, or the folder that it lies in."""
    depth = len(Path(source).parts)
    return "/".join(Path(name).parts[:depth])


def _sources(folder: Path, source: str) -> dict[str, Path]:
    """Relative name -> file, of a source that may be a pattern or a folder. Raises TaskFormatError."""
    root = folder.resolve()
    if source.startswith(("/", "~")) or ".." in Path(source).parts:
        raise TaskFormatError(f"%files copies {source}, a file of the building machine that the task does not hold")
    tops = sorted(folder.glob(source.rstrip("/"))) if source.strip("./") else [folder]
    files = [path for top in tops for path in ([top] if top.is_file() else sorted(top.rglob("*"))) if path.is_file()]
    if not files:
        raise TaskFormatError(f"%files copies {source}, which is not in the task's folder")
    for path in files:
        name = path.relative_to(folder).as_posix()
        if not path.resolve().is_relative_to(root):
            raise TaskFormatError(f"%files copies {name}, a link out of the task's folder")
        if is_private(Path(name).parts[0], ""):
            raise TaskFormatError(f"%files copies {name} into the image, which the agent must not see")
    return {path.relative_to(folder).as_posix(): path for path in files}


def _literal(content: bytes, place: str) -> str:
    """Commands that write a file: readable where it is text."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.endswith("\n") and "\0" not in text and "\r" not in text:
        return _heredoc(text[:-1], place)
    encoded = base64.encodebytes(content).decode("ascii").rstrip("\n")
    return f"base64 -d > {place} <<'ENDLESS'\n{encoded}\nENDLESS\n"


def _heredoc(text: str, place: str) -> str:
    mark = "ENDLESS"
    while mark in text.splitlines():
        mark += "_"
    return f"cat > {place} <<'{mark}'\n{text}\n{mark}\n"
