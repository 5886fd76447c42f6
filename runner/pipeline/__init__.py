"""A recipe compiled into phases, and the phases run in order: skip what is done, record lineage, publish."""

from runner.pipeline.compile import Step, compile_recipe
from runner.pipeline.layout import RunFolder
from runner.pipeline.run import Recipe, RunResult, run_recipe

__all__ = ["compile_recipe", "Step", "run_recipe", "Recipe", "RunResult", "RunFolder"]
