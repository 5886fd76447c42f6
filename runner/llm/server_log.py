"""What a model server's log says, in few lines: where a server dies in a worker, its reason is far above the end."""

import re
from pathlib import Path

_READ_BYTES = 100_000
_LINE_CHARS = 500
_STAMP = re.compile(r"^(\(\w+ pid=\d+\) ?)?([A-Z]+ [\d-]+ [\d:]+ \[[^\]]+\] ?)?")
_FRAME = re.compile(r'^  File "|^ {4}|^Traceback \(most recent call last\)')
"""Of a Python traceback, all but the exception itself; that may have further lines, indented by two."""


def last_lines(log: Path, count: int) -> list[str]:
    """The last lines of a log that are no part of a traceback's stack, each at most 500 characters long.

    vLLM's main process ends with "see root cause above" after a stack of fifty lines; without the stacks, the cause
    is among the last few. What is said twice is kept once.
    A log that cannot be read has no lines.
    """
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _READ_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    kept: dict[str, str] = {}
    for line in text.splitlines():
        said = _STAMP.sub("", line, count=1)
        if said.strip() and not _FRAME.match(said):
            kept.pop(said, None)
            kept[said] = _short(line)
    return list(kept.values())[-count:]


def _short(line: str) -> str:
    return line if len(line) <= _LINE_CHARS else line[:_LINE_CHARS] + " ..."
