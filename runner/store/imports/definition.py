"""Apptainer definition files, read: a header (``Bootstrap``, ``From``) and ``%sections``.

Format: https://apptainer.org/docs/user/latest/definition_files.html
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.domain.errors import TaskFormatError

SECTIONS = ("post", "environment", "files", "labels", "setup", "runscript", "startscript", "test", "help", "arguments")
APP_SECTIONS = ("appinstall", "appfiles", "appenv", "apptest", "apphelp", "apprun", "applabels", "appstart")
_SECTION = re.compile(rf"%({'|'.join((*SECTIONS, *APP_SECTIONS))})(?:[ \t]+(.*))?$")
_HEADER = re.compile(r"\s*([A-Za-z]+)\s*:\s*(.*?)\s*$")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One ``%name arguments`` with the lines below it."""

    name: str
    arguments: str = ""
    body: str = ""


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A definition file of one stage."""

    header: Mapping[str, str]
    """Keys in lower case."""
    sections: Sequence[Section]

    def named(self, name: str) -> list[Section]:
        """The sections of a name that say something, in order: a definition may repeat one."""
        return [section for section in self.sections if section.name == name and section.body.strip()]

    @property
    def base(self) -> str:
        """What the image starts from, in words."""
        return f"{self.header['bootstrap']}: {self.header.get('from', '?')}"

    @property
    def labels(self) -> dict[str, str]:
        """``%labels``, a name and a value a line."""
        lines = [line.split(None, 1) for section in self.named("labels") for line in section.body.splitlines()]
        return {parts[0]: parts[1].strip("\"' ") for parts in lines if len(parts) == 2 and not parts[0].startswith("#")}


def parse(text: str) -> Definition:
    """Raises TaskFormatError for what is no definition of a single stage."""
    header: dict[str, str] = {}
    sections: list[tuple[str, str, list[str]]] = []
    for line in text.splitlines():
        if found := _SECTION.match(line):
            sections.append((found[1], (found[2] or "").strip(), []))
        elif sections and re.match(r"bootstrap\s*:", line, re.IGNORECASE):
            raise TaskFormatError("container.def has several build stages; only one can become a setup script")
        elif sections:
            sections[-1][2].append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            name, value = _header(line)
            header[name] = value
    if "bootstrap" not in header:
        raise TaskFormatError("container.def names no Bootstrap")
    found_sections = [Section(name=name, arguments=rest, body="\n".join(body)) for name, rest, body in sections]
    return Definition(header=header, sections=found_sections)


def file_pairs(section: Section) -> list[tuple[str, str]]:
    """``%files``: (source, destination) a line; the destination is the source's own path where none is given.

    Raises TaskFormatError.
    """
    pairs = []
    for line in section.body.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise TaskFormatError(f"%files has a line that cannot be read: {line.strip()!r}") from error
        if len(words) > 2:
            raise TaskFormatError(f"%files has a line that is not a source and a destination: {line.strip()!r}")
        pairs.append((words[0], words[-1] if words[-1].startswith("/") else f"/{words[-1]}"))
    return pairs


def _header(line: str) -> tuple[str, str]:
    found = _HEADER.match(line)
    if found is None:
        raise TaskFormatError(f"container.def begins with a line that is no 'Key: value': {line.strip()[:60]!r}")
    return found[1].lower(), found[2]
