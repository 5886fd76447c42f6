"""The ledger: what a run has spent, attempt after attempt, and the gate in front of every live call."""

import logging
import threading
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from runner import schema
from runner.domain.errors import BudgetExceeded, StorageError
from runner.llm.base import Completion, Usage
from runner.llm.journal import usage_row
from runner.llm.pricing import show
from runner.store import jsonl
from runner.store.spare import SpareRoom

_log = logging.getLogger(__name__)
_NOTHING = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Live calls and what they cost."""

    calls: int = 0
    usage: Usage = Usage()
    dollars: Decimal = _NOTHING
    """Of the calls whose price is known."""
    unpriced: int = 0
    """Calls whose price is unknown: the true sum is higher by these."""

    @property
    def total(self) -> Decimal | None:
        """The whole sum; None when a call's price is unknown."""
        return None if self.unpriced else self.dollars

    def plus(self, usage: Usage, cost: Decimal | None, calls: int = 1) -> "Spending":
        """With one more call, or some that are known only together."""
        return Spending(
            calls=self.calls + calls,
            usage=self.usage + usage,
            dollars=self.dollars + (cost or _NOTHING),
            unpriced=self.unpriced + (calls if cost is None else 0),
        )


class Ledger:
    """Spending of one run in ``path``, one line a live call; earlier attempts count. Thread-safe."""

    def __init__(self, path: Path, budget: schema.Budget = schema.Budget(), spare: SpareRoom | None = None) -> None:
        """Read what was spent before. ``spare`` is where a call's answer will have room. Raises StorageError."""
        self.path = path
        self._spare = spare
        self._budget = budget
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._unsaved: list[dict[str, Any]] = []
        self._models: dict[str, Spending] = defaultdict(Spending)
        self._total = Spending()
        self._flying = 0
        self._reserved = _NOTHING
        self.refresh()

    def total(self) -> Spending:
        """All live calls of this run."""
        return self._total

    def by_model(self) -> dict[str, Spending]:
        """The same, by the recipe's model name."""
        with self._changed:
            return dict(self._models)

    def refresh(self) -> None:
        """Count anew, since other processes may have spent on the same account. Raises StorageError."""
        with self._writing, self._changed:
            self._models.clear()
            self._total = Spending()
            for row in [*jsonl.read_lines(self.path), *self._unsaved]:
                cost = None if row["cost"] is None else Decimal(row["cost"])
                self._add(row["model"], Usage(**row["usage"]), cost, row.get("calls", 1))

    def book(self, slot: str, model: str, usage: Usage, cost: Decimal | None, calls: int) -> None:
        """Write down what a program of its own has asked a model, once a slot. Raises StorageError."""
        with self._writing:
            if all(row["slot"] != slot for row in jsonl.read_lines(self.path)):
                jsonl.append(self.path, {**_row(slot, model, usage, cost), "calls": calls})
        self.refresh()

    def check(self) -> None:
        """Raises BudgetExceeded when no further call is in the budget."""
        with self._changed:
            if not self._fits(0, _NOTHING):
                raise BudgetExceeded(self._explain(_NOTHING))

    def reserve(self, worst: Decimal | None) -> None:
        """Wait until a call that may cost ``worst`` fits beside those in flight, and set that much aside.

        Raises BudgetExceeded when it cannot fit however those end, StorageError when spending cannot be written down,
        or the answer could not be.
        """
        self.flush()
        if self._spare is not None:
            self._spare.keep()
        most = worst or _NOTHING
        with self._changed:
            while not self._fits(self._flying, self._reserved + most):
                if not self._flying or not self._fits(0, most):
                    raise BudgetExceeded(self._explain(most))
                self._changed.wait()
            self._flying += 1
            self._reserved += most

    def release(self, worst: Decimal | None) -> None:
        """A reserved call came to nothing."""
        with self._changed:
            self._flying -= 1
            self._reserved -= worst or _NOTHING
            self._changed.notify_all()

    def settle(self, worst: Decimal | None, slot: str, model: str, completion: Completion) -> None:
        """A reserved call was answered and cost ``completion.cost``. Never raises: what cannot be written is kept
        and written before the next call is paid for."""
        with self._changed:
            self._unsaved.append(_row(slot, model, completion.usage, completion.cost))
            self._add(model, completion.usage, completion.cost)
        self.release(worst)
        try:
            self.flush()
        except StorageError as error:
            _log.warning("%s", error)

    def flush(self) -> None:
        """Write what could not be written before. Raises StorageError."""
        with self._writing:
            while self._unsaved:
                append = jsonl.append if self._spare is None else self._spare.append
                append(self.path, self._unsaved[0])
                del self._unsaved[0]

    def _fits(self, flying: int, reserved: Decimal) -> bool:
        calls, dollars = self._budget.calls, self._budget.dollars
        enough_calls = calls is None or self._total.calls + flying < calls
        return enough_calls and (dollars is None or self._total.dollars + reserved <= Decimal(str(dollars)))

    def _explain(self, most: Decimal) -> str:
        spent, calls = show(self._total.total), self._total.calls
        if self._budget.calls is not None and calls >= self._budget.calls:
            return f"all {calls} calls of the budget are made ({spent}); raise budget.calls and run again to go on"
        limit = show(Decimal(str(self._budget.dollars)))
        next_one = f", and the next may cost up to {show(most)}" if most else ""
        return f"spent {spent} of {limit} after {calls} calls{next_one}; raise budget.dollars and run again to go on"

    def _add(self, model: str, usage: Usage, cost: Decimal | None, calls: int = 1) -> None:
        self._models[model] = self._models[model].plus(usage, cost, calls)
        self._total = self._total.plus(usage, cost, calls)


def _row(slot: str, model: str, usage: Usage, cost: Decimal | None) -> dict[str, Any]:
    return {"slot": slot, "model": model, "usage": usage_row(usage), "cost": None if cost is None else str(cost)}
