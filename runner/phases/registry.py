"""Every phase there is, by name, in the order they can run."""

from importlib import import_module

from runner.phases.base import Phase
from runner.schema import Config

PHASES = {
    "generate": "runner.phases.generate.phase:GeneratePhase",
    "filter": "runner.phases.filter.phase:FilterPhase",
    "dataset": "runner.phases.dataset.phase:DatasetPhase",
    "sft": "runner.phases.sft.phase:SftPhase",
    "ppo": "runner.phases.ppo.phase:PpoPhase",
    "evaluate": "runner.phases.evaluate.phase:EvaluatePhase",
    "analyze": "runner.phases.analyze.phase:AnalyzePhase",
}
TRAINING = ("sft", "ppo")
OPTIONAL = {"sft": "sft", "ppo": "ppo", "evaluate": "eval"}
"""Phases that run only where the recipe has a section for them: phase -> section."""
SECTIONS = tuple(OPTIONAL.values())
CONTENT = ("analyze",)
"""Phases that are content with whatever came before them: none of their upstream is required."""


def wanted_phases(config: Config) -> list[str]:
    """The recipe's phases, without those whose section is null."""
    return [name for name in config.phases if name not in switched_off(config)]


def switched_off(config: Config) -> set[str]:
    """The optional phases that this recipe does without."""
    return {name for name, section in OPTIONAL.items() if getattr(config, section) is None}


def open_phase(name: str) -> Phase:
    """The phase of this name, imported only now. Raises KeyError."""
    module, _, attribute = PHASES[name].partition(":")
    phase: Phase = getattr(import_module(module), attribute)()
    return phase
