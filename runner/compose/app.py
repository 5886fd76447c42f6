"""From a command line to validated configs, one per variant of a sweep, and to the jobs that run them.

Composing and running are kept apart: Hydra composes every variant first, all of them are checked, and only then the
first job runs, outside Hydra. A typo in the third variant so costs nothing, a job's errors and Ctrl-C come out as they
are, and Hydra's logging, working directory and globals never touch a job. A launcher or sweeper that is not Hydra's
basic one (joblib, submitit, Optuna) runs its jobs itself, in its own processes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runner.compose.argv import Request, parse
from runner.compose.hydra_main import group_names, is_own_override, run_main
from runner.compose.locate import Recipe, find_recipe
from runner.compose.resolve import container, resolve
from runner.compose.secrets import refuse_secret_words
from runner.domain.errors import EndlessError, RecipeError
from runner.domain.plain import plain
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class Composition:
    """How a config came about."""

    recipe: str
    """As the user named it: ``paper/qwen2.5-7b``, or the path of a file, without ``.yaml``."""
    plain: dict[str, Any]
    """The whole resolved recipe as JSON values, defaults included."""
    overrides: tuple[str, ...] = ()
    """What the command line, or the sweep, changed: ``("generate.draws=3", "+drop=scenario")``."""
    sweep: str | None = None
    """The sweep that this is a variant of: the recipe and the command line's overrides. None outside a sweep."""
    variant: str = ""
    """What tells this variant from its siblings (``drop=scenario``); empty outside a sweep."""


Job = Callable[[Config, Composition], int]


def run_app(argv: Sequence[str], job: Job) -> int:
    """Run ``RECIPE key=value ... [-m] [--cfg job]``; returns the highest exit code of its variants.

    Raises RecipeError for everything that is wrong with the recipe or the command line, and what ``job`` raises.
    """
    collected, request = _compose_all(argv, job)
    if request.prints:
        return 0
    return max((job(config, composition) for config, composition in collected), default=0)


def variants(argv: Sequence[str]) -> list[tuple[Config, Composition]]:
    """The configs that ``run_app`` would run, in order: one, or one per variant of a sweep. Raises RecipeError."""
    return _compose_all(argv, None)[0]


def compose(recipe: str, overrides: Sequence[str] = ()) -> Config:
    """The config of a recipe that is not a sweep. Raises RecipeError."""
    found = variants([recipe, *overrides])
    if len(found) != 1 or found[0][1].sweep is not None:
        raise RecipeError(f"recipe {recipe} is a sweep of {len(found)} variants; run or plan it whole")
    return found[0][0]


@dataclass(frozen=True, kw_only=True)
class _Raw:
    """One composed variant, not yet checked."""

    config: Any
    overrides: tuple[str, ...]
    in_sweep: bool


def _compose_all(argv: Sequence[str], job: Job | None) -> tuple[list[tuple[Config, Composition]], Request]:
    refuse_secret_words(tuple(argv))
    request = parse(argv)
    recipe = find_recipe(request.recipe)
    raw: list[_Raw] = []

    def task(config: Any) -> None:
        variant, is_basic = _observe(config)
        if is_basic or job is None:
            raw.append(variant)
        else:
            _run_inside(job, variant, *_finish(variant, recipe, request))

    _guarded(recipe, request, task)
    finished = [_finish(variant, recipe, request) for variant in raw]
    return _name_variants(finished), request


class _JobError(Exception):
    """Carries a job's own error through Hydra, so that it is not taken for an error of composing."""


def _run_inside(job: Job, raw: _Raw, config: Config, composition: Composition) -> None:
    """Run a job where a foreign launcher wants it, perhaps in another process: only an exception gets back."""
    try:
        code = job(config, composition)
    except Exception as error:
        raise _JobError(error) from error
    if code:
        raise _JobError(EndlessError(f"variant {' '.join(raw.overrides)} ended with exit code {code}"))


def _observe(config: Any) -> tuple[_Raw, bool]:
    """What Hydra knows about the job it calls us for, and whether its sweeper and launcher are the basic ones."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import OmegaConf

    hydra = HydraConfig.get()
    words: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)  # an override may hold a ${...}
    overrides = tuple(text for text in words if not is_own_override(text))
    in_sweep = hydra.mode == RunMode.MULTIRUN
    is_basic = all("._internal.core_plugins.basic_" in part._target_ for part in (hydra.launcher, hydra.sweeper))
    return _Raw(config=config, overrides=overrides, in_sweep=in_sweep), is_basic or not in_sweep


def _guarded(recipe: Recipe, request: Request, task: Callable[[Any], None]) -> None:
    """Run Hydra; its own errors become RecipeErrors, all others pass unchanged."""
    from runner.compose.errors import explain, is_foreign

    try:
        run_main(recipe, request, task)
    except SystemExit as leaving:
        if leaving.code:
            raise RecipeError(f"recipe {recipe.name}: Hydra does not take {' '.join(request.options)}") from leaving
    except _JobError as carrier:
        raise carrier.args[0] from None
    except Exception as error:
        if not is_foreign(error):
            raise
        message = str(explain(error, _known_keys(recipe, request)))
        raise RecipeError(f"recipe {recipe.name}: {message}") from error


def _known_keys(recipe: Recipe, request: Request) -> list[str]:
    """The recipe's keys with no override but the options that were chosen, where those exist: the user's dimensions and
    models are valid names too."""
    if not request.overrides:
        return []
    chosen = tuple(text for text in request.overrides if text.partition("=")[0] in group_names())
    composed = _composed(recipe, request, chosen) or _composed(recipe, request, ())
    return [key for config in composed for key in _flat(container(config, resolve=False), "")]


def _composed(recipe: Recipe, request: Request, overrides: tuple[str, ...]) -> list[Any]:
    """The config with these overrides; nothing where they do not compose."""
    from runner.compose.errors import is_foreign

    composed: list[Any] = []
    try:
        run_main(recipe, Request(recipe=request.recipe, overrides=("hydra.mode=RUN", *overrides)), composed.append)
    except Exception as error:
        if not is_foreign(error):
            raise
    return composed


def _flat(values: Mapping[Any, Any], prefix: str) -> list[str]:
    keys: list[str] = []
    for name, value in values.items():
        keys.append(f"{prefix}{name}")
        if isinstance(value, Mapping):
            keys += _flat(value, f"{prefix}{name}.")
    return keys


def _finish(raw: _Raw, recipe: Recipe, request: Request) -> tuple[Config, Composition]:
    """One variant, checked; its overrides are named in errors when it is one of many."""
    where = f"{recipe.name} ({' '.join(raw.overrides)})" if raw.in_sweep else recipe.name
    try:
        config = resolve(raw.config, recipe, raw.overrides)
    except RecipeError as error:
        raise RecipeError(f"recipe {where}: {error}") from error
    sweep = " ".join([recipe.name, *request.overrides]) if raw.in_sweep else None
    return config, Composition(recipe=recipe.name, plain=plain(config), overrides=raw.overrides, sweep=sweep)


def _name_variants(found: list[tuple[Config, Composition]]) -> list[tuple[Config, Composition]]:
    """A variant is called by the overrides that not all of its siblings have."""
    shared = set.intersection(*(set(composition.overrides) for _, composition in found)) if found else set()
    return [(config, replace(composition, variant=_variant(composition, shared))) for config, composition in found]


def _variant(composition: Composition, shared: set[str]) -> str:
    if composition.sweep is None:
        return ""
    return ",".join(text.lstrip("+") for text in composition.overrides if text not in shared)
