"""Ask a model, judge the answer, feed the real error back: at most ``rounds`` times.

This one loop serves all three stages of a draw. (In the paper's released code the repair loop was never wired up.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runner.llm.base import Client, Completion, Finish, Message, Request
from runner.phases.base import Spend
from runner.phases.generate.reasons import Reason
from runner.phases.generate.reply import ReplyError

V = TypeVar("V")


@dataclass(frozen=True)
class Complaint:
    """The answer is not good enough; ``feedback`` goes back to the model."""

    reason: Reason
    feedback: str


@dataclass(frozen=True)
class Reject:
    """The answer ends the draw at once."""

    reason: Reason
    detail: str


@dataclass(frozen=True)
class Result(Generic[V]):
    """How a stage ended: with a value, or with the reason why not."""

    value: V | None
    reason: Reason
    detail: str
    rounds: int
    spend: Spend


@dataclass(frozen=True, kw_only=True)
class Stage:
    """How one stage asks."""

    client: Client
    slot: str
    rounds: int
    max_tokens: int
    temperature: float | None
    scope: str


def repair(stage: Stage, opening: tuple[Message, ...], judge: Callable[[str], V | Complaint | Reject]) -> Result[V]:
    """Run the loop. ``judge`` may raise ReplyError, which counts as an unparsable reply; InfraError passes through."""
    messages, spend = list(opening), Spend()
    complaint = Complaint(Reason.UNPARSABLE, "")
    for attempt in range(stage.rounds):
        completion = stage.client.complete(_request(stage, messages, attempt))
        spend += Spend(calls=1, usage=completion.usage)
        verdict = _judge(completion, judge)
        if isinstance(verdict, Reject):
            return Result(None, verdict.reason, verdict.detail, attempt + 1, spend)
        if not isinstance(verdict, Complaint):
            return Result(verdict, Reason.KEPT, "", attempt + 1, spend)
        complaint = verdict
        messages += [
            Message(role="assistant", content=completion.text or "(empty reply)"),
            Message(role="user", content=complaint.feedback),
        ]
    return Result(None, complaint.reason, complaint.feedback, stage.rounds, spend)


def _request(stage: Stage, messages: list[Message], attempt: int) -> Request:
    return Request(
        slot=f"{stage.slot}/{attempt}",
        messages=tuple(messages),
        max_tokens=stage.max_tokens,
        temperature=stage.temperature,
        scope=stage.scope,
    )


def _judge(completion: Completion, judge: Callable[[str], V | Complaint | Reject]) -> V | Complaint | Reject:
    if completion.finish is Finish.REFUSAL:
        return Reject(Reason.REFUSED, completion.text[:500])
    if completion.finish is Finish.CONTEXT:
        return Reject(Reason.TRUNCATED, "the conversation no longer fits the model's context window")
    try:
        return judge(completion.text)
    except ReplyError as error:
        if completion.finish is Finish.LENGTH:
            return Complaint(Reason.TRUNCATED, f"Your reply was cut at the token limit ({error}). Write a shorter one.")
        return Complaint(Reason.UNPARSABLE, f"Your reply could not be read: {error}. Send the whole reply again.")
