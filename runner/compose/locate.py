"""Which file a recipe's name means: one of ours, or the user's own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runner.compose.suggest import did_you_mean
from runner.domain.errors import RecipeError
from runner.share import share_dir

_HEADER = re.compile(r"^\s*#\s*@package\s+_global_\s*$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A recipe file, found."""

    name: str
    """As the user wrote it, without ``.yaml``: ``paper/qwen2.5-7b``."""
    path: Path
    folder: Path
    """The folder that Hydra looks in; the file is ``<folder>/<key>.yaml``."""
    key: str
    shipped: bool


def recipe_names() -> list[str]:
    """The shipped recipes. Names that start with ``_`` are parts of recipes and recordings are not recipes."""
    root = share_dir("recipes")
    files = (path.relative_to(root) for path in root.rglob("*.yaml"))
    return sorted(
        path.with_suffix("").as_posix()
        for path in files
        if path.parts[0] != "recordings" and not any(part.startswith("_") for part in path.parts)
    )


def find_recipe(name: str) -> Recipe:
    """A shipped recipe by name, or the user's own ``.yaml`` file by path. Raises RecipeError."""
    own, key = Path(name).expanduser(), name.removesuffix(".yaml")
    if name in recipe_names() or (key in recipe_names() and not own.is_file()):
        folder = share_dir("recipes")
        found = Recipe(name=key, path=folder / f"{key}.yaml", folder=folder, key=key, shipped=True)
    elif own.is_file() and own.suffix == ".yaml":
        path = own.absolute()
        found = Recipe(name=key, path=path, folder=path.parent, key=path.stem, shipped=False)
    else:
        raise RecipeError(_not_found(name, own, recipe_names()))
    if not _HEADER.search(_read(found.path)):
        raise RecipeError(f"recipe {name}: its first line must be `# @package _global_`")
    return found


def _not_found(name: str, path: Path, names: Sequence[str]) -> str:
    if path.is_file():
        return f"recipe {name}: a recipe file's name ends in .yaml"
    if path.suffix in (".yaml", ".yml"):
        return f"recipe {name}: there is no such file{did_you_mean(path.with_suffix('').as_posix(), names)}"
    known = ", ".join(names)
    return f"recipe {name!r} does not exist{did_you_mean(name, names)}\nrecipes: {known}; or a path to a .yaml file"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RecipeError(f"recipe {path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise RecipeError(f"recipe {path} cannot be read: {error.strerror}") from error
