"""An episode: one agent's attempt at one task, turn by turn, and how it ended."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """The three ways anything ends here. Infra is nobody's failure: it is never a zero reward."""

    PASS = "pass"
    FAIL = "fail"
    INFRA = "infra"


class EndReason(StrEnum):
    """Why the agent stopped (whether it solved the task is the verifier's word, not the agent's)."""

    DONE = "done"
    TURN_LIMIT = "turn_limit"
    CONTEXT_FULL = "context_full"
    TIME_LIMIT = "time_limit"
    INVALID_OUTPUT = "invalid_output"
    INFRA = "infra"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One reply of the model and what came back."""

    reply: str
    """The model's text as received, thoughts included."""
    command: str | None = None
    """The bash command it asked for; None when it said done or could not be parsed."""
    observation: str = ""
    """The text sent back; empty on the last turn."""
    exit_code: int | None = None
    timed_out: bool = False
    invalid: str = ""
    """Why the reply could not be parsed; empty when it could."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of ``input_tokens`` read from the provider's prompt cache, which is cheaper."""
    model_seconds: float = 0.0
    command_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Episode:
    """An attempt, finished."""

    task_id: str
    sample: int
    outcome: Outcome
    end: EndReason
    turns: tuple[Turn, ...] = ()
    prompt: str = ""
    """The system and first user message, as sent."""
    verdict: str = ""
    """The verifier's last lines, or the infrastructure error and its remedy."""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        return f"{self.task_id}/{self.sample}"

    @property
    def reward(self) -> float | None:
        """1.0, 0.0, or None when infrastructure failed and no reward exists."""
        return {Outcome.PASS: 1.0, Outcome.FAIL: 0.0, Outcome.INFRA: None}[self.outcome]
