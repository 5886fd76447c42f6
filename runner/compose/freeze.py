"""The resolved recipe as a file: what ran, whatever becomes of the recipe afterwards."""

from pathlib import Path

from runner.compose.app import Composition

_HEADER = """\
# @package _global_
# Resolved from the recipe {recipe}{overrides}. A recipe itself: `endless run {name}` does the same again.
defaults:
  - override /taxonomy: none
  - override /prices: none

"""


def freeze(composition: Composition, path: Path) -> None:
    """Write the whole resolved recipe, every default included. Raises OSError."""
    path.write_text(frozen_text(composition, path.name), encoding="utf-8")


def frozen_text(composition: Composition, name: str = "recipe.yaml") -> str:
    """What ``freeze`` writes."""
    import yaml

    overrides = f" with {' '.join(composition.overrides)}" if composition.overrides else ""
    header = _HEADER.format(recipe=_line(composition.recipe), overrides=_line(overrides), name=name)
    return header + yaml.safe_dump(composition.plain, sort_keys=False, allow_unicode=True, width=100)


def _line(text: str) -> str:
    """No override can end the comment it is shown in."""
    return " ".join(text.split("\n"))
