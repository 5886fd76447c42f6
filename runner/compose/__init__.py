"""From a recipe and overrides to a validated Config. The only importer of Hydra and OmegaConf, inside functions only.

``app`` turns ``RECIPE key=value ... [-m]`` into Hydra's argv and back into configs, ``typed`` checks names and types
against ``runner/schema.py``, ``resolve`` and ``validate`` check values, ``errors`` says in one or two lines what is
wrong, ``freeze`` writes the resolved recipe, ``manual`` reads the schema's docstrings, ``locate`` finds a recipe.
"""

from runner.compose.app import Composition, compose, run_app, variants
from runner.compose.freeze import freeze, frozen_text
from runner.compose.locate import recipe_names
from runner.compose.manual import ManualKey, describe_keys

__all__ = [
    "run_app",
    "compose",
    "variants",
    "Composition",
    "freeze",
    "frozen_text",
    "describe_keys",
    "ManualKey",
    "recipe_names",
]
