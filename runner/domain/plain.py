"""Plain values and their fingerprints: what makes two phases, images or calls "the same"."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import Field, field, fields, is_dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

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


def _left_out(one: Field[Any], owner: Any) -> bool:
    return _LATER in one.metadata and getattr(owner, one.name) == one.default


def fingerprint(*parts: Any, digits: int = 16) -> str:
    """A hash of any plain values: ``digits`` hexadecimal digits of SHA-256 over their canonical JSON."""
    text = json.dumps([plain(part) for part in parts], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
