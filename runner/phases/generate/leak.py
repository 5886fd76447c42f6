"""Does an instruction give away the hidden truth?"""

import re

SHORTEST = 12
"""Characters: shorter truth lines ("42", "done") occur in honest instructions by chance."""


def leaked_line(instruction: str, truth: str) -> str | None:
    """The first line of the truth that stands, word for word, in the instruction; None when none does.

    Case, punctuation around words and white space do not matter. Lines that only name a path say where a result goes,
    which an instruction must say too, so they do not count.
    """
    haystack = _normal(instruction)
    for line in truth.splitlines():
        needle = _normal(line)
        if len(needle) >= SHORTEST and not _is_path(line) and f" {needle} " in f" {haystack} ":
            return line.strip()
    return None


def _normal(text: str) -> str:
    return " ".join(re.findall(r"[\w./:@=+-]*\w", text.lower()))


def _is_path(line: str) -> bool:
    return re.fullmatch(r"[\s*`\"'-]*(?:/[\w.@+-]+)+/?[\s`\"':.]*", line) is not None
