"""Bash source as tokens: enough of the grammar to say which programs run and whether two commands are the same.

``shlex`` knows neither heredocs nor substitutions nor operators without spaces around them, and raises on an unclosed
quote. This scanner takes any text: what is left open ends with the text.

A word's text is its spelling with the quotes gone: ``'a b'``, ``"a b"`` and ``a\\ b`` all read ``a\\ b``. A character
that quotes took the meaning from carries a backslash, so ``'$x'`` (``\\$x``) and ``"$x"`` (``$x``) stay different.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_REDIRECT = re.compile(r"\d*(?:<<<|<<-?|>>|>\||>&|<&|<>|[<>](?!\())|&>>?")
_OPERATOR = re.compile(r";;&?|;&|&&|\|\||\|&|[;|&()\n]")
_ENDS_WORD = frozenset(" \t\r\n;|&()<>")
_LITERAL = re.compile(r"[\w./:=,@%+^-]")
"""What means the same with quotes and without."""
_RAW = re.compile(r"[\w./:=,@%+^*?\[\]~!{}-]+")
"""A run of characters of a word that need no attention."""


class Kind(Enum):
    WORD = auto()
    OPERATOR = auto()
    """``;`` (also for a line's end), ``&&``, ``|``, ``(`` and so on."""
    REDIRECT = auto()
    """``2>``; its target is the next word."""
    BODY = auto()
    """The lines of a heredoc."""


@dataclass(frozen=True)
class Token:
    """A piece of bash source."""

    kind: Kind
    text: str
    inner: tuple[str, ...] = ()
    """The sources of a word's command and process substitutions."""
    quoted: bool = False
    """A word that was quoted anywhere is no reserved word."""


def tokens(source: str) -> list[Token]:
    """Read any text; never raises."""
    return _Scanner(source).run()


def unquoted(text: str) -> str:
    """A word's text as the program would get it, expansions apart."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


class _Scanner:
    """One pass over the source. Every step moves on by at least one character."""

    def __init__(self, source: str) -> None:
        self._text, self._at = source, 0
        self._tokens: list[Token] = []
        self._heredocs: list[tuple[str, bool]] = []
        """Delimiters whose bodies begin at the next line, and whether tabs before them are dropped."""

    def run(self) -> list[Token]:
        while self._at < len(self._text):
            self._step()
        return self._tokens

    def _step(self) -> None:
        if blank := _BLANK.match(self._text, self._at):
            self._at = blank.end()
        elif self._text[self._at] == "#":
            self._at = self._find("\n")
        elif redirect := _REDIRECT.match(self._text, self._at):
            self._redirect(redirect)
        elif self._text.startswith("((", self._at):
            self._arithmetic()
        elif operator := _OPERATOR.match(self._text, self._at):
            self._operator(operator)
        else:
            self._tokens.append(self._word())

    def _redirect(self, match: "re.Match[str]") -> None:
        self._at = match.end()
        self._tokens.append(Token(Kind.REDIRECT, match[0]))
        if match[0].endswith(("<<", "<<-")):
            if blank := _BLANK.match(self._text, self._at):
                self._at = blank.end()
            delimiter = self._word().text
            self._tokens.append(Token(Kind.WORD, "EOF"))  # its name is a matter of taste
            self._heredocs.append((unquoted(delimiter), match[0].endswith("-")))

    def _operator(self, match: "re.Match[str]") -> None:
        self._at = match.end()
        if match[0] == "\n":
            for delimiter, tabs in self._heredocs:
                self._tokens.append(Token(Kind.BODY, self._body(delimiter, tabs)))
            self._heredocs.clear()
        self._tokens.append(Token(Kind.OPERATOR, ";" if match[0] == "\n" else match[0]))

    def _body(self, delimiter: str, tabs: bool) -> str:
        lines = []
        while self._at < len(self._text):
            end = self._find("\n")
            line = self._text[self._at : end]
            self._at = min(end + 1, len(self._text))
            line = line.lstrip("\t") if tabs else line
            if line.rstrip("\r") == delimiter:
                break
            lines.append(line.rstrip())
        return "\n".join(lines)

    def _arithmetic(self) -> None:
        """``(( i++ ))`` runs no program."""
        begin, self._at = self._at, self._skip(self._at + 1, ")")
        self._tokens.append(Token(Kind.WORD, "".join(self._text[begin : self._at].split()), quoted=True))

    def _word(self) -> Token:
        parts: list[str] = []
        inner: list[str] = []
        begin = self._at
        if self._text.startswith(("<(", ">("), self._at):
            self._substitution(parts, inner)
        while self._at < len(self._text) and (self._text[self._at] not in _ENDS_WORD or self._opens_array(parts)):
            self._part(parts, inner)
        text = "".join(parts)
        quoted = any(mark in self._text[begin : self._at] for mark in "'\"\\")
        return Token(Kind.WORD, text or ("''" if quoted else ""), tuple(inner), quoted)

    def _opens_array(self, parts: list[str]) -> bool:
        return self._text[self._at] == "(" and bool(parts) and parts[-1].endswith("=")

    def _part(self, parts: list[str], inner: list[str]) -> None:
        char = self._text[self._at]
        if raw := _RAW.match(self._text, self._at):
            parts.append(raw[0])
            self._at = raw.end()
        elif char == "'":
            end = self._find("'", self._at + 1)
            parts.append(_literal(self._text[self._at + 1 : end]))
            self._at = end + 1
        elif char == '"':
            self._double(parts, inner)
        elif char == "\\":
            following = self._text[self._at + 1 : self._at + 2]
            parts.append("" if following == "\n" else _literal(following))
            self._at += 2
        else:
            self._expansion(parts, inner)

    def _double(self, parts: list[str], inner: list[str]) -> None:
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            char = self._text[self._at]
            if char == "\\" and self._text[self._at + 1 : self._at + 2] in tuple('$`"\\\n'):
                following = self._text[self._at + 1 : self._at + 2]
                parts.append("" if following == "\n" else _literal(following))
                self._at += 2
            elif char in "$`":
                self._expansion(parts, inner)
            else:
                parts.append(_literal(char))
                self._at += 1
        self._at += 1

    def _expansion(self, parts: list[str], inner: list[str]) -> None:
        """``$(...)``, `` `...` ``, ``${...}``, ``$'...'``, an array, or one character as it is."""
        text, at = self._text, self._at
        if text.startswith("$(", at) and not text.startswith("$((", at):
            self._substitution(parts, inner)
            return
        if text[at] == "`":
            end = self._skip(at + 1, "`")
            inner.append(text[at + 1 : end - 1])
        elif text.startswith(("$(", "${"), at):
            end = self._skip(at + 2, {"(": ")", "{": "}"}[text[at + 1]])
        elif text.startswith("$'", at):
            end = self._skip(at + 2, "'")
        elif text[at] == "(":
            end = self._skip(at + 1, ")")
        else:
            end = at + 1
        parts.append(" ".join(text[at:end].split()))
        self._at = end

    def _substitution(self, parts: list[str], inner: list[str]) -> None:
        """``$(...)``, ``<(...)`` or ``>(...)``."""
        begin, self._at = self._at, self._skip(self._at + 2, ")")
        inner.append(self._text[begin + 2 : self._at].removesuffix(")"))
        parts.append(" ".join(self._text[begin : self._at].split()))

    def _skip(self, at: int, closer: str) -> int:
        """The place behind ``closer``, over whatever is quoted and nested; the text's end when it is never closed."""
        text, open_ = self._text, [closer]
        while at < len(text) and open_:
            char, top = text[at], open_[-1]
            if char == "\\":
                at += 1
            elif char == top:
                open_.pop()
            elif text.startswith(("$(", "${"), at) and top != "'":
                open_.append({"(": ")", "{": "}"}[text[at + 1]])
                at += 1
            elif char == "'" and top not in "\"'":
                at = self._find("'", at + 1)
            elif char == '"' and top not in "\"'":
                open_.append('"')
            elif char == "(" and top == ")":
                open_.append(")")
            at += 1
        return min(at, len(text))

    def _find(self, what: str, start: int | None = None) -> int:
        found = self._text.find(what, self._at if start is None else start)
        return len(self._text) if found < 0 else found


def _literal(text: str) -> str:
    return "".join(char if _LITERAL.match(char) else "\\" + char for char in text)
