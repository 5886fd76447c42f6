"""When two commands, and two results, count as the same.

Cosmetic differences of a command are white space, quoting, comments, the order of flags where it cannot matter, the
name of a heredoc's delimiter, and what nobody chose: moments to the second, UUIDs, random names in temporary folders.
Of a result, what changes by itself is left out: times, durations, process and job numbers; all numbers where the
command shows the machine's state (``ps``, ``top``). Other numbers stay: 43 % after 42 % is progress.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from runner.analysis.failures.shell import Kind, Token, tokens

RESTLESS = frozenset(["ps", "top", "htop", "uptime", "free", "vmstat", "iostat", "w", "jobs", "lsof", "ss", "netstat"])
"""Programs whose figures change by themselves."""

_ON_FILES = frozenset(["ls", "cat", "rm", "cp", "mv", "mkdir", "ln", "wc", "du", "df", "tree", "chmod", "chown"])
_FREE_ORDER = _ON_FILES | frozenset(["grep", "egrep", "fgrep", "uniq", "ps", "free", "uname"])
"""Programs whose neighbouring flags may stand in any order, and be written apart or together."""
_CLUSTER = re.compile(r"-[A-Za-z]{2,}")
_OPENS = frozenset(["then", "do", "else", "{", "if", "while", "until"])

_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*,? "
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*"
_MINUTE = r"(?<![\w:.])(?:[01]?\d|2[0-3]):[0-5]\d"
_SECOND = rf"{_MINUTE}:[0-5]\d(?:[.,]\d+)?(?![\w:])"
_DATE = r"(?<!\d)20\d\d-?(?:0[1-9]|1[0-2])-?(?:[0-2]\d|3[01])"
_ZONE = r"(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_MOMENT = re.compile(
    rf"{_DATE}[T _-]?(?:[01]\d|2[0-3])[:.-]?[0-5]\d[:.-]?[0-5]\d(?:[.,]\d+)?(?!\d){_ZONE}"
    r"|(?<!\d)1[5-9]\d{8}(?:\.\d+|\d{3})?(?!\d)"
)
"""To the second, as nobody types it: ISO, 20260131-120000, seconds or milliseconds since 1970 (from 2017 to 2033)."""
_TIME = re.compile(
    rf"(?:{_DAY})?{_MONTH} +\d{{1,2}}(?: +\d{{1,2}}:\d{{2}}(?::\d{{2}})?| +\d{{4}}\b)?(?: [AP]M)?(?: UTC)?(?: \d{{4}})?"
    rf"|{_DATE}(?!\d)(?:[T _-]?{_MINUTE}(?![\w:]))?|{_SECOND}|{_MINUTE}(?![\w:])"
)
"""As programs print it: ``ls -l``, ``date``, a day, a clock; not ``main.c:12:34``."""
_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
_TEMPORARY = re.compile(r"(?:/var)?/tmp/[^\s;|&()<>'\"]*|/dev/shm/[^\s;|&()<>'\"]*")
_RANDOM = re.compile(r"\btmp[._-]?(?=\w*[0-9A-Z_])\w{6,}|\.(?=[A-Za-z0-9]*[0-9A-Z])[A-Za-z0-9]{6,10}(?=$|/)")
_DURATION = re.compile(r"\b\d+m\d+(?:\.\d+)?s\b|\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns|s|secs?|seconds?|minutes?)\b")
_PROCESS = re.compile(r"(?i)^\[\d+\][+-]?(?:\s+\d+$)?|\b(pid|process)([ =:#]+)\d+|0x[0-9a-f]+", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def normal_command(source: str) -> str:
    """A spelling that all cosmetic variations of a command share. Any text is taken."""
    return _without_random(_spell(tokens(source)))


def without_temporary_numbers(text: str) -> str:
    """A text whose names in temporary folders have lost their numbers: ``/tmp/try2.py`` is ``/tmp/tryN.py``."""
    return _TEMPORARY.sub(lambda found: _NUMBER.sub("N", found[0]), text)


def without_numbers(text: str) -> str:
    """A text with every number replaced by N."""
    return _NUMBER.sub("N", text)


def normal_result(observation: str) -> str:
    """What an observation says apart from what changes by itself."""
    text = _DURATION.sub("DURATION", _TIME.sub("TIME", _without_random(observation)))
    text = _PROCESS.sub(r"\1\2PROCESS", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _without_random(text: str) -> str:
    """Without moments, UUIDs and the random part of temporary names."""
    text = _MOMENT.sub("TIME", _UUID.sub("UUID", text))
    return _TEMPORARY.sub(lambda found: _RANDOM.sub("RANDOM", found[0]), text)


def _spell(source: Sequence[Token]) -> str:
    pieces: list[str] = []
    for operator, group in groupby(source, key=lambda token: token.kind is Kind.OPERATOR):
        if not operator:
            pieces += _in_order(list(group))
        else:
            pieces += [token.text for token in group]
    return " ".join(_without_needless(pieces))


def _without_needless(pieces: Sequence[str]) -> list[str]:
    """Drop the line ends that separate nothing: at the start, the end, and after an operator or ``do``."""
    kept: list[str] = []
    for piece in pieces:
        separates = kept and kept[-1] not in _OPENS and kept[-1] not in (";", "&&", "||", "|", "(", "&", ";;")
        if piece != ";" or separates:
            kept.append(piece)
    return kept[:-1] if kept and kept[-1] == ";" else kept


def _in_order(words: Sequence[Token]) -> list[str]:
    if not any(word.text in _FREE_ORDER for word in words[:2]):  # behind sudo, too
        return [word.text for word in words]
    spelt: list[str] = []
    for flags, group in groupby(words, key=_is_flag):
        texts = [word.text for word in group]
        spelt += sorted(set(_apart(texts))) if flags else texts
    return spelt


def _is_flag(word: Token) -> bool:
    return word.kind is Kind.WORD and word.text.startswith("-") and len(word.text) > 1 and word.text != "--"


def _apart(flags: Sequence[str]) -> Iterator[str]:
    for flag in flags:
        if _CLUSTER.fullmatch(flag):
            yield from (f"-{letter}" for letter in flag[1:])
        else:
            yield flag
