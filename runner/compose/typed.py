"""A plain mapping into the schema's frozen dataclasses, strictly: unknown keys, wrong types and wrong names are errors.

Hydra lets ``+group.typo=3`` and any key of a recipe file pass; here is where they stop. Written out rather than merged
into an OmegaConf structured config: there (2.3) frozen dataclasses are read-only at every level, and a message that
names the key, the type in plain words and the nearest valid name needs the type hints anyway.
"""

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from runner.compose.manual import key_names, type_name
from runner.compose.suggest import did_you_mean, nearest, phrase
from runner.domain.errors import RecipeError
from runner.schema import Config


def to_config(values: Mapping[str, Any]) -> Config:
    """The typed config. Raises RecipeError naming the first wrong key."""
    config = _decode(Config, dict(values), "")
    assert isinstance(config, Config)
    return config


def decode_section(section: type, values: Mapping[str, Any], key: str) -> Any:
    """One section of the schema on its own, named ``key`` in errors. Raises RecipeError."""
    return _section(section, values, key)


def _decode(hint: Any, value: Any, key: str, default: Any = None) -> Any:
    """``default`` is what a section's left-out keys are taken from."""
    if hint is Any:
        return value
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return None if value is None else _decode(_not_none(hint), value, key, default)
    if dataclasses.is_dataclass(hint):
        return _section(hint, _expect(Mapping, value, hint, key), key, default)
    if origin is list:
        items = _expect(list, value, hint, key)
        return [_decode(get_args(hint)[0], item, f"{key}[{index}]") for index, item in enumerate(items)]
    if origin is dict:
        entries = _expect(Mapping, value, hint, key)
        return {str(name): _decode(get_args(hint)[1], item, f"{key}.{name}") for name, item in entries.items()}
    if issubclass(hint, Enum):
        return _member(hint, value, key)
    return _scalar(hint, value, key)


def _not_none(hint: Any) -> Any:
    return next(arg for arg in get_args(hint) if arg is not NoneType)


def _section(section: Any, values: Mapping[Any, Any], key: str, default: Any = None) -> Any:
    hints, defaults = get_type_hints(section), _defaults(section) if default is None else vars(default)
    prefix = f"{key}." if key else ""
    for name in values:
        if name not in hints:
            raise RecipeError(_unknown(section, str(name), prefix))
    found = {name: _decode(hints[name], value, f"{prefix}{name}", defaults.get(name)) for name, value in values.items()}
    return section(**found) if default is None else dataclasses.replace(default, **found)


def _defaults(section: Any) -> dict[str, Any]:
    """Of the keys whose default is a section, which need not be the section's own default."""
    return {
        field.name: field.default for field in dataclasses.fields(section) if dataclasses.is_dataclass(field.default)
    }


def _unknown(section: Any, name: str, prefix: str) -> str:
    names = [field.name for field in dataclasses.fields(section)]
    hint = phrase(
        [prefix + near for near in nearest(name, names)] or [key for key in key_names() if key.endswith(f".{name}")]
    )
    owner = prefix.rstrip(".") or "a recipe"
    return f"unknown key {prefix}{name}" + (hint or f"; {owner} has {', '.join(names)}")


def _member(enum: type[Enum], value: Any, key: str) -> Enum:
    names = [member.name for member in enum]
    if value in names:
        return enum[value]
    raise RecipeError(f"{key} is {value!r}, not one of {', '.join(names)}{did_you_mean(str(value), names)}")


def _scalar(hint: type, value: Any, key: str) -> Any:
    """Text takes numbers as they are written; a number takes only a number of its kind."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is str and (isinstance(value, str) or is_number):
        return str(value)
    if hint is float and is_number and math.isfinite(value):
        return float(value)
    if hint in (int, bool) and type(value) is hint:
        return value
    raise RecipeError(_wanted(hint, value, key))


def _expect(kind: type, value: Any, hint: Any, key: str) -> Any:
    if isinstance(value, kind):
        return value
    raise RecipeError(_wanted(hint, value, key))


def _wanted(hint: Any, value: Any, key: str) -> str:
    shown = "null" if value is None else "a mapping" if isinstance(value, Mapping) else repr(value)
    wanted = type_name(hint)
    if wanted == "section":
        wanted = f"section with the keys {', '.join(field.name for field in dataclasses.fields(hint))}"
    article = "" if wanted.startswith(("text", "true")) or hint is Any else "a "
    return f"{key} is {shown}, but wants {article}{wanted}"
