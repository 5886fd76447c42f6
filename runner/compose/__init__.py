"""From a recipe and overrides to a validated Config. The only importer of Hydra and OmegaConf, and only inside functions.

``app`` turns ``RECIPE key=value ... [-m]`` into Hydra's argv and back into configs, ``typed`` checks names and types
against ``runner/schema.py``, ``validate`` checks values, ``errors`` says in one or two lines what is wrong, ``freeze``
writes the resolved recipe, ``manual`` reads the schema's docstrings, ``locate`` finds our files and the user's recipe.
"""

from runner.compose.app import Composition, compose, run_app, variants
from runner.compose.freeze import freeze
from runner.compose.locate import project_root, recipe_names, share_dir
from runner.compose.manual import ManualKey, describe_keys

__all__ = [
    "run_app",
    "compose",
    "variants",
    "Composition",
    "freeze",
    "describe_keys",
    "ManualKey",
    "project_root",
    "share_dir",
    "recipe_names",
]
