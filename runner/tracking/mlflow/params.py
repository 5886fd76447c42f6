"""A nested recipe as flat MLflow params: ``filter.n``, ``models.solver.name``."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

VALUE_LIMIT = 6000
"""Characters of one param value in MLflow's stores (``MAX_PARAM_VAL_LENGTH``)."""
NAME_LIMIT = 250
_INLINE = 500
"""A dictionary of data up to this many characters is shown as it is, a larger one as its size and digest."""
_MANY = 32
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_FORBIDDEN = re.compile(r"[^\w\-. :/]")


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Dotted name -> text, for every setting."""
    return {safe_name(name): clip(_text(value)) for name, value in _leaves(config, "")}


def safe_name(name: str) -> str:
    """A name that MLflow accepts for a param or metric."""
    return _FORBIDDEN.sub("_", name)[:NAME_LIMIT]


def clip(text: str, limit: int = VALUE_LIMIT) -> str:
    """The text within the limit; a cut is marked with the full length."""
    if len(text) <= limit:
        return text
    mark = f" … [cut: {len(text)} characters in all]"
    return text[: limit - len(mark)] + mark


def _leaves(config: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value and not _is_data(value):
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _is_data(value: Mapping[str, Any]) -> bool:
    """Whether this is a table (labels and weights, models and prices) and not a section of settings."""
    return len(value) > _MANY or not all(_IDENTIFIER.fullmatch(str(key)) for key in value)


def _text(value: Any) -> str:
    """As YAML would write it, lists and dictionaries as JSON."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str | Path):
        return str(value)
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    if isinstance(value, Mapping) and len(text) > _INLINE:
        return f"{len(value)} entries, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return text


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else str(value)
