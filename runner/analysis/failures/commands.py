"""Which programs a bash command runs, and whether it failed."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runner.analysis.failures.shell import Kind, Token, tokens, unquoted
from runner.domain.episode import Turn

_MATCHERS = frozenset(["grep", "egrep", "fgrep", "zgrep", "rg", "diff", "cmp", "comm"])
_QUESTIONS = frozenset(["test", "[", "[[", "((", "expr", "pgrep", "pidof", "which", "type", "command", "id", "getent"])
ANSWERS = _MATCHERS | _QUESTIONS
"""Programs whose exit code 1 is an answer ("no match", "they differ"), not a failure."""

WAITS = frozenset(["sleep", "wait", "watch", "inotifywait", "usleep"])
"""A command with one of these waits for something."""

_TALKERS = frozenset(["echo", "printf", "true", ":"])
_INSIDE = frozenset(["if", "then", "else", "elif", "while", "until", "do", "!", "{", "coproc"])
_BEFORE = _INSIDE | frozenset(["fi", "done", "esac", "}"])
"""Reserved words that a command may follow."""
_NO_COMMAND = frozenset(["for", "select", "case"])
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[\w.+:\[][\w.+:\[-]{0,99}")
_SHELLS = frozenset(["bash", "sh", "dash", "zsh", "ksh", "su"])
_DEPTH = 6
"""Substitutions in substitutions, programs behind programs: deeper ones are not looked at."""

_WRAPPERS = {
    "sudo": ("ughpCUrtDT", 0),
    "doas": ("uC", 0),
    "env": ("uCS", 0),
    "timeout": ("sk", 1),
    "nice": ("n", 0),
    "ionice": ("cnp", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("ioe", 0),
    "xargs": ("nPILdaEs", 0),
    "watch": ("nd", 0),
    "time": ("fo", 0),
    "exec": ("a", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "strace": ("oepsu", 0),
    "flock": ("wE", 1),
}
"""Programs that run another: the options that take a value, and how many arguments come before the other's name."""


@dataclass(frozen=True)
class Simple:
    """A simple command: its words, and the operator after it."""

    words: tuple[Token, ...]
    then: str = ""


def programs(source: str) -> tuple[str, ...]:
    """The programs a command names, in order and as often as it names them: in pipelines, lists, loops, subshells and
    substitutions, and behind ``sudo``, ``env``, ``xargs``, ``timeout``, ``bash -c`` and ``find -exec`` (each of which
    counts as well). Folders are left out (``/usr/bin/python3`` is ``python3``), names that only the shell knows
    (``$TOOL``), too. Any text is taken.
    """
    return tuple(_programs(source, 0))


def is_failure(turn: Turn) -> bool:
    """Whether a turn's command failed: it was stopped, or its exit code is not 0.

    Exit code 1 of a program in ``ANSWERS`` is no failure; nor is it in ``[ -f x ] && echo yes``.
    """
    if turn.command is None or not was_run(turn):
        return False
    if turn.timed_out or turn.exit_code is None:
        return True
    return turn.exit_code != 0 and not (turn.exit_code == 1 and _decides(turn.command) in ANSWERS)


def was_run(turn: Turn) -> bool:
    """False for replies without a command, and for the last command of an episode whose time was up."""
    return turn.command is not None and (turn.exit_code is not None or turn.timed_out or bool(turn.observation))


def simple_commands(source: Sequence[Token]) -> Iterator[Simple]:
    """The simple commands of a token sequence; ``case`` patterns, names of functions and redirections are left out."""
    words: list[Token] = []
    pattern = target = False
    for place, token in enumerate(source):
        if token.kind is Kind.OPERATOR:
            if token.text == "(" and words and _text(source, place + 1) == ")":
                words.clear()  # a function's name
            pattern = pattern or _starts(words, "case")
            if words and (not pattern or _starts(words, "esac")):
                yield Simple(tuple(words), token.text)
            pattern = token.text.startswith(";;") or (pattern and token.text != ")" and not _starts(words, "esac"))
            words.clear()
        elif token.kind is Kind.WORD and not target:
            words.append(token)
        target = token.kind is Kind.REDIRECT
    if words and not pattern:
        yield Simple(tuple(words))


def _text(source: Sequence[Token], place: int) -> str:
    return source[place].text if place < len(source) else ""


def _starts(words: Sequence[Token], reserved: str) -> bool:
    return any(not word.quoted and word.text == reserved for word in words[:2])


def _programs(source: str, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        return
    found = tokens(source)
    for simple in simple_commands(found):
        yield from _of_words(simple.words, depth)
    for token in found:
        for inner in token.inner:
            yield from _programs(inner, depth + 1)


def _of_words(words: Sequence[Token], depth: int) -> Iterator[str]:
    at = 0
    while at < len(words) and _precedes(words[at]):
        at += 2 if words[at].text == "function" else 1
    if at >= len(words) or (words[at].text in _NO_COMMAND and not words[at].quoted):
        return
    name = unquoted(words[at].text).rsplit("/", 1)[-1]
    if _NAME.fullmatch(name):
        yield name
        if depth < _DEPTH:
            yield from _run_by(name, words[at + 1 :], depth + 1)


def _precedes(word: Token) -> bool:
    reserved = not word.quoted and (word.text in _BEFORE or word.text == "function")
    return reserved or bool(_ASSIGNMENT.match(word.text))


def _run_by(name: str, arguments: Sequence[Token], depth: int) -> Iterator[str]:
    """The programs that a program is told to run."""
    if name in _WRAPPERS:
        rest = _after_options(arguments, *_WRAPPERS[name])
        if not (name == "command" and len(rest) < len(arguments)):  # command -v asks, it does not run
            yield from _of_words(rest, depth)
    elif name in _SHELLS or name == "eval":
        yield from _programs(_script(name, arguments), depth)
    elif name == "find":
        for option, program in pairwise(arguments):
            if option.text in ("-exec", "-execdir", "-ok", "-okdir"):
                yield from _of_words([program], depth)


def _after_options(arguments: Sequence[Token], valued: str, positional: int) -> Sequence[Token]:
    at = 0
    while at < len(arguments) and arguments[at].text.startswith("-"):
        option = arguments[at].text
        at += 2 if len(option) == 2 and option[1] in valued else 1
        if option == "--":
            break
    return arguments[at + positional :]


def _script(name: str, arguments: Sequence[Token]) -> str:
    """What ``bash -c`` or ``eval`` is given."""
    if name == "eval":
        return " ".join(unquoted(word.text) for word in arguments)
    for place, word in enumerate(arguments[:-1]):
        if re.fullmatch(r"-\w*c", word.text):
            return unquoted(arguments[place + 1].text)
    return ""


def _decides(source: str) -> str:
    """The program that a command's exit code is from, as far as the text tells: the last one, or the one before the
    ``&&`` when what follows only talks."""
    commands = list(simple_commands(tokens(source)))
    while commands:
        last = commands.pop()
        name = next(_of_words(last.words, _DEPTH), "")
        if not (name in _TALKERS and commands and commands[-1].then == "&&"):
            return name or last.words[0].text[:2]  # (( 1 > 2 )) is one word
    return ""
