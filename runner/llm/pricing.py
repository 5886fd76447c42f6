"""What calls cost, in exact decimal dollars. An unknown price is an unknown cost, never 0."""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from runner import schema
from runner.llm.base import Request, Usage

_MILLION = Decimal(1_000_000)
_OVERHEAD_TOKENS = 64
"""What a provider's chat template may add to one message."""


def price_of(model: schema.Model, prices: Mapping[str, schema.Price]) -> schema.Price | None:
    """A model's price; None when unknown. A replay costs nothing."""
    if model.provider is schema.Provider.replay:
        return schema.Price(input=0.0, output=0.0)
    return prices.get(model.name)


def cost(price: schema.Price | None, usage: Usage) -> Decimal | None:
    """US dollars of one call (prices are per million tokens), unrounded; None when the price is unknown.

    Writing to a prompt cache, which some providers charge extra for, is counted as plain input.
    """
    if price is None:
        return None
    cached = min(usage.cached_tokens, usage.input_tokens)
    fresh = usage.input_tokens - cached
    cached_price = price.input if price.cached is None else price.cached
    return (
        _dec(price.input) * fresh + _dec(cached_price) * cached + _dec(price.output) * usage.output_tokens
    ) / _MILLION


def worst_case(price: schema.Price | None, request: Request) -> Decimal | None:
    """An upper bound on what a call may cost: a token is at least one byte, and the reply may use all its tokens."""
    read = sum(len(m.content.encode("utf-8", "replace")) + _OVERHEAD_TOKENS for m in request.messages)
    return cost(price, Usage(input_tokens=read, output_tokens=request.max_tokens))


def show(dollars: Decimal | None) -> str:
    """For people: to the cent, below a dollar to the hundredth of one; ``unknown`` where it is."""
    if dollars is None:
        return "unknown"
    step = Decimal("0.01") if dollars >= 1 or dollars == 0 else Decimal("0.0001")
    return f"${dollars.quantize(step, rounding=ROUND_HALF_UP)}"


def _dec(value: float) -> Decimal:
    return Decimal(str(value))  # the digits the recipe shows, not the binary fraction behind them
