"""The seam between the house and a model: a ``Request`` goes in, a ``Completion`` comes out."""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant"]
    content: str


class Finish(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTEXT = "context"
    """The conversation no longer fits the model's context window; the text is what it wrote before, usually nothing.
    It is data, not an error: an episode ends as ``context_full``."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One model call."""

    slot: str
    """Where in the experiment this call stands: ``solve/<task>/<sample>/<turn>``. The journal's key."""
    messages: tuple[Message, ...]
    max_tokens: int
    """The cap on generated tokens, thoughts included."""
    temperature: float | None = None
    """None leaves it to the provider; providers that refuse the parameter never get it."""
    scope: str = ""
    """What else an answer depends on (the task's content, the agent's settings): part of the call's identity."""

    @property
    def head(self) -> tuple[Message, ...]:
        """The messages up to and including the first of the user: what stays the same when a call is repeated."""
        first = next((i for i, m in enumerate(self.messages) if m.role == "user"), len(self.messages) - 1)
        return self.messages[: first + 1]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The provider's own count, in tokens."""

    input_tokens: int = 0
    """Everything read, cached or not."""
    output_tokens: int = 0
    """Everything written, hidden reasoning included."""
    cached_tokens: int = 0
    """The part of ``input_tokens`` read from the provider's prompt cache."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One model's answer."""

    text: str
    usage: Usage = Usage()
    finish: Finish = Finish.STOP
    model: str = ""
    """The name the provider answered under (a dated snapshot, say)."""
    seconds: float = 0.0
    replayed: bool = False
    """Read from the journal: nothing was paid."""
    cost: Decimal | None = None
    """US dollars, exact; None where the price is unknown. On a replayed call: what it once cost."""
    drift: str | None = None
    """On a replayed call whose conversation is not quite the recorded one (a command that ran again after a crash
    and printed another date, say): the last message of the user that the model really answered."""


class Client(Protocol):
    """A model. Thread-safe: many threads call ``complete`` at once."""

    def complete(self, request: Request) -> Completion:
        """Answer. Raises ProviderError after the SDK's own retries, BudgetExceeded, ReplayMiss, UserError (bad key)."""

    def close(self) -> None:
        """Release connections and servers. Idempotent."""


def key_of(role: str) -> str:
    """Where a role's model stands in the recipe, for messages: ``solver`` is ``models.solver``; a role with a dot in it
    (``eval.dev.models.o3``) is its own key."""
    return role if "." in role else f"models.{role}"
