"""The recipe's manual: every key with its type, default and the docstring under its field in ``runner/schema.py``."""

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from runner import schema, schema_evaluation, schema_models, schema_training
from runner.domain.plain import plain
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class ManualKey:
    """One key of the recipe."""

    key: str
    """Dotted; ``<name>`` stands for a name of the user's choice."""
    type: str
    default: Any
    """A plain value; sections have none."""
    doc: str
    """Its docstring, or its section's for a section; may be empty."""


@cache
def describe_keys() -> tuple[ManualKey, ...]:
    """Every key a recipe may set, sections before their fields, in the schema's order."""
    return tuple(_section(Config, ""))


def key_names() -> list[str]:
    """Only the dotted keys."""
    return [entry.key for entry in describe_keys()]


def type_name(hint: Any) -> str:
    """A type in the recipe's words: ``number``, ``list of text``, ``replay | vllm``, ``text or null``."""
    parts = [arg for arg in get_args(hint) if arg is not type(None)]
    if get_origin(hint) is list:
        return f"list of {type_name(parts[0])}"
    if get_origin(hint) is dict:
        return f"mapping of name to {type_name(parts[1])}"
    if parts:
        return f"{type_name(parts[0])} or null"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " | ".join(member.name for member in hint)
    if dataclasses.is_dataclass(hint):
        return "section"
    return {int: "whole number", float: "number", bool: "true or false", str: "text"}.get(hint, "anything")


def _section(section: Any, prefix: str, owner: Any = None) -> Iterator[ManualKey]:
    """``owner`` is the section's value where it is left out: it may differ from the section's own defaults."""
    docs, hints = _docs()[section.__name__], get_type_hints(section)
    for field in dataclasses.fields(section):
        hint, key = hints[field.name], f"{prefix}{field.name}"
        default = _default(field) if owner is None else getattr(owner, field.name)
        nested = _dataclass_in(hint)
        doc = docs.get(field.name) or (_first_line(nested) if nested else "")
        yield ManualKey(key=key, type=type_name(hint), default=None if nested else plain(default), doc=doc)
        if nested:
            inner = f"{key}.<name>." if get_origin(hint) is dict else f"{key}."
            yield from _section(nested, inner, default if dataclasses.is_dataclass(default) else None)


def _dataclass_in(hint: Any) -> Any:
    """The section inside a hint: itself, or the values of a mapping of sections."""
    for candidate in (hint, *(inner for arg in get_args(hint) for inner in (arg, *get_args(arg)))):
        if dataclasses.is_dataclass(candidate):
            return candidate
    return None


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _first_line(section: Any) -> str:
    return (inspect.getdoc(section) or "").partition("\n")[0]


@cache
def _docs() -> dict[str, dict[str, str]]:
    """Class name -> field name -> the string literal under the field."""
    modules = (schema, schema_models, schema_training, schema_evaluation)
    trees = [ast.parse(inspect.getsource(module)) for module in modules]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_field_docs(node)) for node in classes}


def _field_docs(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield statement.target.id, inspect.cleandoc(text).replace("\n", " ")
