"""Which settings of frozen recipes differ so that results can differ.

A setting counts when the compiled recipe says so: give one run the other's value, and some phase gets another
fingerprint. So nothing has to be kept in a list that forgets: an address, a number of workers or a price never counts.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from runner.compose.typed import to_config
from runner.domain.errors import EndlessError, StorageError
from runner.phases.registry import CONTENT
from runner.pipeline.compile import compile_recipe
from runner.report.comparison import Setting, shown_value
from runner.results.runs import Run

Path = tuple[str, ...]
Plain = dict[str, Any]
_MISSING = object()


def frozen(run: Run) -> Plain:
    """The resolved recipe of a run as plain values. Raises StorageError."""
    import yaml

    try:
        found = yaml.safe_load(run.folder.recipe.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise StorageError(f"{run.folder.recipe} cannot be read: {error}") from error
    return {name: value for name, value in found.items() if name != "defaults"}


def settings_that_differ(recipes: Sequence[Plain]) -> list[Setting]:
    """In the recipe's order; a value per recipe, ``null`` where it has none."""
    first, *others = recipes
    paths = dict.fromkeys(path for other in others for path in differing(first, other) if matters(first, other, path))
    outer = [path for path in paths if not any(path[:length] in paths for length in range(1, len(path)))]
    return [Setting(key=".".join(path), values=[shown_value(_get(one, path)) for one in recipes]) for path in outer]


def differing(one: Any, other: Any, prefix: Path = ()) -> Iterator[Path]:
    """Where two nested values differ; a section that only one of them has is one difference."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in dict.fromkeys([*one, *other]):
            yield from differing(one.get(name), other.get(name), (*prefix, name))
    elif one != other:
        yield prefix


def matters(one: Plain, other: Plain, path: Path) -> bool:
    """Whether either recipe makes other results with the other's value. What cannot be tried, counts."""
    return any(_changes(a, b, path) for a, b in ((one, other), (other, one)))


def _changes(recipe: Plain, source: Plain, path: Path) -> bool:
    changed = copy.deepcopy(recipe)
    try:
        _set(changed, path, _get(source, path, _MISSING))
        return _fingerprints(changed) != _fingerprints(recipe)
    except (EndlessError, LookupError, TypeError):
        return True


def _fingerprints(recipe: Plain) -> dict[str, str]:
    """Of every phase that makes results; not of the report, which also reads what changes none."""
    return _compiled(json.dumps(recipe))


@lru_cache(maxsize=64)
def _compiled(recipe: str) -> dict[str, str]:
    steps = compile_recipe(to_config(json.loads(recipe)))
    return {step.name: step.fingerprint for step in steps if step.name not in CONTENT}


def _get(recipe: Any, path: Path, default: Any = None) -> Any:
    for name in path:
        if not isinstance(recipe, Mapping) or name not in recipe:
            return default
        recipe = recipe[name]
    return recipe


def _set(recipe: Any, path: Path, value: Any) -> None:
    *outer, last = path
    for name in outer:
        recipe = recipe[name]
    if value is _MISSING:
        del recipe[last]
    else:
        recipe[last] = copy.deepcopy(value)
