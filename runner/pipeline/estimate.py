"""What a recipe's phases are expected to take, before they run."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runner.llm.base import Usage
from runner.llm.pricing import cost, price_of
from runner.phases.base import Estimate
from runner.phases.generate.tasks import kept_tasks
from runner.pipeline.compile import Step
from runner.pipeline.resources import ROLES
from runner.schema import Config
from runner.store.artifacts import Store

EXPECTED_KEEP_RATE = 0.65
"""Of draws that become tasks, until the generate phase is done and the number is known."""


def step_estimates(config: Config, steps: Sequence[Step], store: Store) -> list[Estimate]:
    """One estimate a step, with dollars where the price is known."""
    items = expected_tasks(config, steps, store)
    return [_priced(config, step.name, step.phase.estimate(config, items)) for step in steps]


def total(estimates: Iterable[Estimate]) -> Estimate:
    """The sum; its dollars are None as soon as one is unknown."""
    found = list(estimates)
    known = [e.dollars for e in found if e.calls]
    return Estimate(
        calls=sum(e.calls for e in found),
        likely_calls=sum(e.likely_calls for e in found),
        input_tokens=sum(e.input_tokens for e in found),
        output_tokens=sum(e.output_tokens for e in found),
        dollars=None if None in known else sum(d for d in known if d is not None),
    )


def expected_tasks(config: Config, steps: Sequence[Step], store: Store) -> int:
    """Tasks out of generate: counted when it is done, else expected."""
    for step in steps:
        if step.name == "generate" and store.is_done(step.name, step.fingerprint):
            return sum(1 for _ in kept_tasks(store.folder(step.name, step.fingerprint)))
    return round(EXPECTED_KEEP_RATE * config.generate.draws)


def _priced(config: Config, phase: str, estimate: Estimate) -> Estimate:
    role = ROLES.get(phase)
    if role is None:
        return estimate
    usage = Usage(input_tokens=estimate.input_tokens, output_tokens=estimate.output_tokens)
    dollars = cost(price_of(getattr(config.models, role), config.prices), usage)
    return replace(estimate, dollars=None if dollars is None else float(dollars))
