"""Config -> steps. A step's fingerprint is the hash of what its results depend on; equal fingerprints share results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.domain.errors import RecipeError
from runner.domain.plain import fingerprint
from runner.phases.base import Phase
from runner.phases.registry import CONTENT, PHASES, open_phase, switched_off, wanted_phases
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class Step:
    """One phase of one recipe."""

    phase: Phase
    fingerprint: str
    upstream: Mapping[str, str]
    """Name -> fingerprint of the phases it reads."""

    @property
    def name(self) -> str:
        return self.phase.name


def compile_recipe(config: Config) -> list[Step]:
    """The steps of a recipe, in order, without optional phases (sft, ppo, evaluate) whose section is null: those are
    nobody's upstream either. Raises RecipeError for an unknown phase or one whose upstream is missing.
    """
    steps: dict[str, Step] = {}
    off = switched_off(config)
    for name in wanted_phases(config):
        if name not in PHASES:
            raise RecipeError(f"phases: unknown phase {name!r}; there are {', '.join(PHASES)}")
        phase = open_phase(name)
        wanted = [up for up in phase.upstream if up not in off and (up in steps or name not in CONTENT)]
        missing = [up for up in wanted if up not in steps]
        if missing:
            raise RecipeError(f"phases: {name} needs {' and '.join(missing)} before it")
        upstream = {up: steps[up].fingerprint for up in wanted}
        steps[name] = Step(
            phase=phase,
            fingerprint=fingerprint(name, phase.version, phase.reads(config), upstream),
            upstream=upstream,
        )
    return list(steps.values())


def run_key(config: Config, steps: Sequence[Step]) -> str:
    """Names a run: equal for recipes that make the same things, whatever their tracking, budget or concurrency."""
    return fingerprint(config.name, [step.fingerprint for step in steps], digits=8)
