"""A phase's model use as metrics: the same names in every phase, and no dollars where a price is unknown."""

from collections.abc import Iterable, Mapping

from runner.llm.pricing import cost, price_of
from runner.phases.base import Spend
from runner.schema import Model, Price


def spend_metrics(phase: str, model: Model, prices: Mapping[str, Price], spent: Iterable[Spend]) -> dict[str, float]:
    """``<phase>/calls``, ``/input_tokens``, ``/output_tokens`` and, with a known price, ``/dollars``.

    A replayed call counts here as the call it stands for, with its recorded tokens; its dollars are 0.
    """
    total = sum(spent, Spend())
    metrics = {
        f"{phase}/calls": float(total.calls),
        f"{phase}/input_tokens": float(total.usage.input_tokens),
        f"{phase}/output_tokens": float(total.usage.output_tokens),
    }
    dollars = cost(price_of(model, prices), total.usage)
    if dollars is not None:
        metrics[f"{phase}/dollars"] = float(dollars)
    return metrics
