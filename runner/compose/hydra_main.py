"""The one place that runs ``@hydra.main``: our argv in, one composed config per variant out, nothing left behind.

Hydra wants a search path, a folder to write in and ``sys.argv``. It gets a temporary folder, in which ``recipes`` links
to ours and ``own_recipe`` to the folder of the user's recipe (with the user's own options of known groups, such as
``taxonomy/mine.yaml``, beside it). Neither folder is put on the path itself: a directory ``outputs/`` there would
become a config group and shadow the key ``outputs``.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.compose.argv import Request
from runner.compose.locate import Recipe
from runner.domain.plain import plain
from runner.schema import Config
from runner.schema_evaluation import Evaluation
from runner.schema_training import Ppo, Sft
from runner.share import share_dir
from runner.store.scratch import scratch

_OWN = "own_recipe"


def run_main(recipe: Recipe, request: Request, task: Callable[[Any], Any]) -> None:
    """Call ``task`` with each composed config (an OmegaConf node without ``hydra``). Raises what Hydra raises."""
    import hydra
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store(name="schema", node=plain(Config()))
    optional = {"sft": Sft(), "ppo": Ppo(), "eval": Evaluation()}  # null in the schema: their options start from these
    for group, section in optional.items():
        store.store(group=group, name="full", node=plain(section))
    with scratch("hydra") as folder, _full_errors(), _hydra_globals():
        _link(folder, recipe)
        argv = [*request.options, *_own_overrides(folder, recipe), *request.overrides]
        decorate = hydra.main(version_base="1.3", config_path=str(share_dir("configs")), config_name="config")
        with _argv(["endless", *argv]):
            decorate(task)()


def is_own_override(text: str) -> bool:
    """Whether an override is ours (it adds the recipe) and not the user's."""
    return text.startswith(("+recipes=", "+recipes/", f"+{_OWN}="))


def group_names() -> list[str]:
    """The shipped config groups."""
    return sorted(path.name for path in share_dir("configs").iterdir() if path.is_dir())


def _link(folder: Path, recipe: Recipe) -> None:
    (folder / "groups").mkdir()
    (folder / "groups" / "recipes").symlink_to(share_dir("recipes"))
    if recipe.shipped:
        return
    (folder / "groups" / _OWN).symlink_to(recipe.folder)
    for group in group_names():
        if (recipe.folder / group).is_dir():
            (folder / "groups" / group).symlink_to(recipe.folder / group)


def _own_overrides(folder: Path, recipe: Recipe) -> Sequence[str]:
    written = folder / "written"
    return (
        f"hydra.searchpath=[{_quoted(f'file://{folder}/groups')}]",
        f"hydra.run.dir={_quoted(str(written))}",
        f"hydra.sweep.dir={_quoted(str(written))}",
        _addition(recipe),
    )


def _addition(recipe: Recipe) -> str:
    """Adds the recipe as an option of its own folder, so that ``defaults: [_base]`` in it means its neighbour."""
    folder, _, option = recipe.key.rpartition("/")
    group = _OWN if not recipe.shipped else f"recipes/{folder}".rstrip("/")
    return f"+{group}={_quoted(option)}"


def _quoted(text: str) -> str:
    r"""A string in Hydra's override grammar: ``'`` becomes ``\'``, and backslashes before it double."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def _argv(argv: list[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = argv
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def _hydra_globals() -> Iterator[None]:
    """Hydra keeps its last config, and ``--info`` sets its own logging up; take both down again."""
    from hydra.core.hydra_config import HydraConfig

    root, hydra = logging.getLogger(), HydraConfig.instance()
    level, handlers, config = root.level, root.handlers[:], hydra.cfg
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        hydra.cfg = config


@contextmanager
def _full_errors() -> Iterator[None]:
    """Hydra raises its errors instead of printing them and leaving the process."""
    before = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = before
