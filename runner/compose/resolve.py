"""One composed variant into a checked Config: missing values, secrets, names, types, values, recordings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.compose.locate import Recipe
from runner.compose.secrets import refuse_secrets
from runner.compose.typed import to_config
from runner.compose.validate import validate
from runner.domain.errors import RecipeError
from runner.phases.registry import SECTIONS
from runner.schema import Config


def resolve(composed: Any, recipe: Recipe, overrides: Sequence[str] = ()) -> Config:
    """The typed config of a composed OmegaConf node. Raises RecipeError without the recipe's name."""
    from omegaconf.errors import OmegaConfBaseException

    from runner.compose.errors import explain

    try:
        _refuse_missing(composed)
        values = _without_what_is_off(container(composed, resolve=True), overrides)
    except OmegaConfBaseException as error:
        raise explain(error) from error
    refuse_secrets(values)
    config = _own_recordings(to_config(values), recipe)
    validate(config)
    return config


def _without_what_is_off(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """``ppo=off`` means off, although a recipe's own ``ppo:`` keys are merged over the option that a group chooses."""
    off = [name for name in SECTIONS if f"{name}=off" in overrides]
    return {**values, **dict.fromkeys(off)}


def _refuse_missing(config: Any) -> None:
    from omegaconf import OmegaConf

    missing = sorted(OmegaConf.missing_keys(config))
    if missing:
        raise RecipeError(f"{', '.join(missing)} must be set: in the recipe, or as `{missing[0]}=...`")


def container(config: Any, *, resolve: bool) -> dict[str, Any]:
    from omegaconf import OmegaConf

    values = OmegaConf.to_container(config, resolve=resolve, throw_on_missing=False)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def _own_recordings(config: Config, recipe: Recipe) -> Config:
    """Recordings beside the user's own recipe file get their full path; ours stay relative to ``recipes/``."""
    if recipe.shipped:
        return config
    models = config.models
    generator, solver = (
        replace(model, replay=str(recipe.folder / model.replay))
        if model.replay and not Path(model.replay).is_absolute() and (recipe.folder / model.replay).is_dir()
        else model
        for model in (models.generator, models.solver)
    )
    return replace(config, models=replace(models, generator=generator, solver=solver))
