"""On whose account models are asked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.schema import Budget, Model, Price


@dataclass(frozen=True, kw_only=True)
class Account:
    """What a run's models are asked, booked and kept by. Plain values, so that another process can be told."""

    journal_root: Path
    """The folder of the answers that were paid for."""
    ledger: Path
    """The file that spending is kept in; vLLM's logs go beside it."""
    recipes: Path = Path()
    """The folder that recordings of replayed models are relative to."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    budget: Budget = Budget()

    def with_free(self, model: Model) -> "Account":
        """The same, but this model costs nothing, whatever the prices say: we serve it ourselves."""
        return replace(self, prices={**self.prices, model.name: Price()})
