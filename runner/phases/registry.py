"""Every phase there is, by name, in the order they can run."""

from importlib import import_module

from runner.phases.base import Phase

PHASES = {
    "generate": "runner.phases.generate.phase:GeneratePhase",
    "filter": "runner.phases.filter.phase:FilterPhase",
    "dataset": "runner.phases.dataset.phase:DatasetPhase",
}


def open_phase(name: str) -> Phase:
    """The phase of this name, imported only now. Raises KeyError."""
    module, _, attribute = PHASES[name].partition(":")
    phase: Phase = getattr(import_module(module), attribute)()
    return phase
