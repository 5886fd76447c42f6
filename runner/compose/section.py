"""One section of a recipe on its own, from ``key=value`` words: for commands that need no whole recipe."""

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from runner.compose.typed import decode_section
from runner.domain.errors import RecipeError
from runner.domain.plain import plain

S = TypeVar("S")


def typed_section(section: type[S], words: Sequence[str]) -> S:
    """The section with its defaults and these values. Raises RecipeError."""
    import yaml

    values: dict[str, Any] = plain(section())
    for word in words:
        key, equals, text = word.partition("=")
        if not equals:
            raise RecipeError(f"{word!r} is not KEY=VALUE; {section.__name__.lower()} has {', '.join(values)}")
        values[key] = yaml.safe_load(text)
    found = decode_section(section, values, section.__name__.lower())
    assert dataclasses.is_dataclass(found)
    assert isinstance(found, section)
    return found
