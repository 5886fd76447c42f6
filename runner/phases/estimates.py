"""What model calls are expected to take, before they are made."""

from collections.abc import Iterable

from runner.llm.base import Usage
from runner.llm.pricing import cost, price_of
from runner.phases.base import Estimate
from runner.schema import Config, Model

TURNS = 6
PROMPT_TOKENS = 800
TOKENS_PER_TURN = 350
OUTPUT_TOKENS = 150
"""Of episodes, roughly: the quickstart's have 5.6 turns, a prompt of 700 to 900 tokens and grow by about 200 tokens a
turn, 64 of them written. Models that think aloud write more than its recorded replies do."""


def episodes_estimate(config: Config, model: Model, episodes: int) -> Estimate:
    """So many episodes of a model, in the recipe's harness."""
    turns = min(TURNS, config.agent.max_turns)
    usage = Usage(
        input_tokens=episodes * sum(PROMPT_TOKENS + TOKENS_PER_TURN * turn for turn in range(turns)),
        output_tokens=episodes * turns * OUTPUT_TOKENS,
    )
    return calls_estimate(config, model, usage, calls=episodes * config.agent.max_turns, likely=episodes * turns)


def calls_estimate(config: Config, model: Model, usage: Usage, *, calls: int, likely: int) -> Estimate:
    """``likely`` calls that take ``usage`` together; at most it is ``calls``."""
    dollars = cost(price_of(model, config.prices), usage)
    return Estimate(
        calls=calls,
        likely_calls=likely,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        dollars=None if dollars is None else float(dollars),
    )


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
        note=" ".join(e.note for e in found if e.note),
    )
