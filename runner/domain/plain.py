"""Plain values and their fingerprints: what makes two phases, images or calls "the same"."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, field, fields, is_dataclass
from enum import Enum, StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_LATER = "endless.later"


def later(default: Any) -> Any:
    """A dataclass field added after values of the class were fingerprinted: plain forms leave it out while it has its
    default, so that fingerprints made before it existed stay as they are."""
    return field(default=default, metadata={_LATER: True})


def plain(value: Any) -> Any:
    """Reduce dataclasses, enums, tuples and paths to JSON values. Raises TypeError for anything else."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if not _left_out(f, value)}
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"no plain form for {type(value).__name__}")


def unplain(hint: Any, value: Any) -> Any:
    """The inverse of ``plain`` for what was written by it: ``hint`` is a dataclass or any type of its fields.

    For our own files. A user's input goes through ``compose/typed``, which explains what is wrong with it. Raises
    TypeError, ValueError and KeyError for what is not the plain form of the hint.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return None if value is None else unplain(next(arg for arg in inner if arg is not NoneType), value)
    if isinstance(hint, type) and is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise TypeError(f"{value!r} is not the plain form of a {hint.__name__}")
        hints = get_type_hints(hint)
        return hint(**{name: unplain(hints[name], item) for name, item in value.items()})
    if origin in (list, tuple):
        return origin(unplain(inner[0], item) for item in value)
    if origin in (dict, Mapping):
        return {name: unplain(inner[1], item) for name, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value) if issubclass(hint, StrEnum) else hint[value]
    return Path(value) if hint is Path else value


def _left_out(one: Field[Any], owner: Any) -> bool:
    return _LATER in one.metadata and getattr(owner, one.name) == one.default


def fingerprint(*parts: Any, digits: int = 16) -> str:
    """A hash of any plain values: ``digits`` hexadecimal digits of SHA-256 over their canonical JSON."""
    text = json.dumps([plain(part) for part in parts], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
