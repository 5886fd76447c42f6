"""The options of a program that uses argparse, read from its source: nothing of it is imported or run.

OpenRLHF builds its parsers at the bottom of its two programs, whose imports (torch, ray, vllm) take 20 seconds and
want a GPU. Its ``add_argument`` calls are plain enough to be read as they stand.
"""

import argparse
import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

_TYPES: dict[str, type] = {"int": int, "float": float, "str": str}
_SWITCHES = ("store_true", "store_false")


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option: what argparse must know to accept or refuse a value."""

    name: str
    type: str = "str"
    nargs: int | str | None = None
    choices: tuple[str, ...] = ()
    switch: bool = False
    """Takes no value."""


class Refused(Exception):
    """argparse does not take it; the message is its own."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def build_parser(options: Mapping[str, Option]) -> argparse.ArgumentParser:
    """argparse's parser for these options; raises Refused where argparse would leave the process."""
    parser = _Parser(prog="openrlhf", add_help=False, allow_abbrev=False)
    for option in options.values():
        if option.switch:
            parser.add_argument(option.name, action="store_true")
        else:
            choices = option.choices or None
            parser.add_argument(option.name, type=_TYPES[option.type], nargs=option.nargs, choices=choices)
    return parser


def read_options(source: str) -> dict[str, Option]:
    """The options of a program's source. Raises ValueError for an ``add_argument`` that is not understood."""
    return {option.name: option for option in _options(ast.parse(source).body, {})}


def _options(body: Sequence[ast.stmt], names: Mapping[str, str]) -> Iterator[Option]:
    """Those of these statements; ``names`` are the loop variables around them."""
    for statement in body:
        match statement:
            case ast.For(target=ast.Name(id=name), iter=items, body=inner):
                for value in _literal(items, ()):
                    yield from _options(inner, {**names, name: value})
            case ast.If(body=inner):
                yield from _options(inner, names)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument")) as call):
                yield _option(call, names)


def _option(call: ast.Call, names: Mapping[str, str]) -> Option:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    action = _literal(given.get("action"), "store")
    if action not in ("store", *_SWITCHES):
        raise ValueError(f"line {call.lineno}: action {action!r}")
    return Option(
        name=_text(call.args[0], names),
        type=_type(given.get("type")),
        nargs=_literal(given.get("nargs"), None),
        choices=tuple(_literal(given.get("choices"), ())),
        switch=action in _SWITCHES,
    )


def _type(node: ast.expr | None) -> str:
    if node is None:
        return "str"
    if isinstance(node, ast.Name) and node.id in _TYPES:
        return node.id
    raise ValueError(f"line {node.lineno}: type {ast.unparse(node)}")


def _text(node: ast.expr, names: Mapping[str, str]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part, names) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)):
            return names[name]
    raise ValueError(f"line {node.lineno}: an option called {ast.unparse(node)}")


def _literal(node: ast.expr | None, default: Any) -> Any:
    return default if node is None else ast.literal_eval(node)
