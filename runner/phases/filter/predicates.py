"""``keep`` predicates: ``pass_at_n > 0``, ``pass_rate <= 0.875``."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from runner.domain.errors import RecipeError
from runner.phases.summary import TaskSummary

_FORM = re.compile(r"\s*(\w+)\s*(<=|>=|==|!=|<|>)\s*(-?\d+(?:\.\d+)?)\s*")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NAMES = ("pass_at_n", "pass_at_1", "pass_rate", "passes", "mean_turns")


@dataclass(frozen=True)
class Predicate:
    """One condition on a task's summary."""

    name: str
    symbol: str
    number: float

    def __str__(self) -> str:
        return f"{self.name} {self.symbol} {self.number:g}"

    def holds(self, summary: TaskSummary) -> bool:
        return _OPERATORS[self.symbol](_value(summary, self.name), self.number)


def parse(text: str, n: int) -> Predicate:
    """Read one predicate for a filter of ``n`` episodes. Raises RecipeError."""
    match = _FORM.fullmatch(text)
    if not match:
        raise RecipeError(f"filter.keep: cannot read {text!r}; write NAME OP NUMBER, such as 'pass_at_n > 0'")
    name, symbol, number = match.groups()
    k = re.fullmatch(r"pass_at_(\d+)", name)
    if name not in _NAMES and not k:
        near = get_close_matches(name, _NAMES, 1) or list(_NAMES)
        raise RecipeError(f"filter.keep: unknown name {name!r}; did you mean {', '.join(near)}?")
    if k and not 1 <= int(k.group(1)) <= n:
        raise RecipeError(f"filter.keep: {name} needs k between 1 and filter.n = {n}")
    return Predicate(name, symbol, float(number))


def parse_all(texts: Sequence[str], n: int, early_stop: int | None) -> tuple[Predicate, ...]:
    """Read a recipe's predicates. With early stopping only "any pass at all" can be decided honestly."""
    predicates = tuple(parse(text, n) for text in texts)
    if early_stop is not None:
        for predicate in predicates:
            if predicate.name not in ("pass_at_n", "passes") or (predicate.symbol, predicate.number) != (">", 0.0):
                raise RecipeError(
                    f"filter.early_stop cannot serve the predicate {predicate}: it needs all n episodes; "
                    "use only 'pass_at_n > 0', or set filter.early_stop to null"
                )
    return predicates


def _value(summary: TaskSummary, name: str) -> float:
    if name == "pass_at_n":
        return float(summary.passes > 0)
    if name == "passes":
        return float(summary.passes)
    if name == "pass_rate":
        return summary.pass_rate
    if name == "mean_turns":
        return summary.mean_turns
    return summary.pass_at(int(name.removeprefix("pass_at_")))
