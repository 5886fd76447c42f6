"""What an imported Dockerfile says of its last stage: whose image it is, and where its programs start."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from string import Template

_CONTINUED = re.compile(r"\\[ \t]*\n")
_HEREDOC = re.compile(r"(?<!<)<<-?\s*[\"']?([A-Za-z_]\w*)")


def last_user(dockerfile: str) -> str:
    """The user that the image runs as: ``root`` where it names none."""
    user = "root"
    for word, rest in _instructions(dockerfile):
        if word == "FROM":
            user = "root"
        elif word == "USER":
            user = rest.partition(":")[0]
    return user


def last_workdir(dockerfile: str) -> str:
    """The folder that the image's programs start in: ``/`` where it names none (its base may name another)."""
    folder, variables = PurePosixPath("/"), dict[str, str]()
    for word, rest in _instructions(dockerfile):
        if word == "FROM":
            folder = PurePosixPath("/")
        elif word in ("ENV", "ARG"):
            variables.update(_assignments(rest))
        elif word == "WORKDIR":
            folder /= Template(rest.strip("\"'")).safe_substitute(variables)
    return str(folder)


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """(word, rest) of each instruction; what heredocs hold is none, though it may look like one."""
    ends: list[str] = []
    for line in _CONTINUED.sub(" ", dockerfile).splitlines():
        text = line.strip()
        if ends:
            ends = ends[1:] if text == ends[0] else ends
        elif text and not text.startswith("#"):
            word, _, rest = text.partition(" ")
            yield word.upper(), rest.strip()
            ends = _HEREDOC.findall(rest) if word.upper() in ("RUN", "COPY", "ADD") else []


def _assignments(rest: str) -> dict[str, str]:
    """``A=1 B="2"``, or the old ``A value``."""
    found = {name: value.strip("\"'") for name, value in re.findall(r'(\w+)=("[^"]*"|\'[^\']*\'|\S*)', rest)}
    if not found and len(parts := rest.split(None, 1)) > 1:
        found[parts[0]] = parts[1]
    return found
