"""Two links of the chain: the budget in front of a live call, and the limit on calls in flight."""

import threading
from dataclasses import replace

from runner import schema
from runner.llm.base import Client, Completion, Request
from runner.llm.ledger import Ledger
from runner.llm.pricing import cost, worst_case


class BudgetedClient:
    """Asks the ledger before each call and books it afterwards. Closes what it wraps."""

    def __init__(self, inner: Client, ledger: Ledger, model: str, price: schema.Price | None) -> None:
        self._inner = inner
        self._ledger = ledger
        self._model = model
        self._price = price

    def complete(self, request: Request) -> Completion:
        """The inner client's answer, with its cost. Raises BudgetExceeded before anything is paid."""
        worst = worst_case(self._price, request)
        self._ledger.reserve(worst)
        try:
            answer = self._inner.complete(request)
        except BaseException:
            self._ledger.release(worst)
            raise
        answer = replace(answer, cost=cost(self._price, answer.usage))
        self._ledger.settle(worst, request.slot, self._model, answer)
        return answer

    def close(self) -> None:
        """Close the inner client. Idempotent."""
        self._inner.close()


class LimitedClient:
    """At most ``concurrency`` calls of the inner client at once. Closes what it wraps."""

    def __init__(self, inner: Client, concurrency: int) -> None:
        self._inner = inner
        self._free = threading.BoundedSemaphore(concurrency)

    def complete(self, request: Request) -> Completion:
        """The inner client's answer, once there is room."""
        with self._free:
            return self._inner.complete(request)

    def close(self) -> None:
        """Close the inner client. Idempotent."""
        self._inner.close()
