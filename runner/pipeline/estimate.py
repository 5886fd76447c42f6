"""What a recipe's phases are expected to take, before they run."""

from collections.abc import Sequence

from runner.phases.base import Estimate
from runner.phases.generate.tasks import kept_tasks
from runner.pipeline.compile import Step
from runner.schema import Config
from runner.store.artifacts import Store

EXPECTED_KEEP_RATE = 0.65
"""Of draws that become tasks, until the generate phase is done and the number is known."""


def step_estimates(config: Config, steps: Sequence[Step], store: Store) -> list[Estimate]:
    """One estimate a step."""
    items = expected_tasks(config, steps, store)
    return [step.phase.estimate(config, items) for step in steps]


def expected_tasks(config: Config, steps: Sequence[Step], store: Store) -> int:
    """Tasks out of generate: counted when it is done, else expected."""
    for step in steps:
        if step.name == "generate" and store.is_done(step.name, step.fingerprint):
            return sum(1 for _ in kept_tasks(store.folder(step.name, step.fingerprint)))
    return round(EXPECTED_KEEP_RATE * config.generate.draws)
