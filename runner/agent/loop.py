"""The synchronous driver: one episode of a client in a sandbox."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from runner.agent.harness import Ask, End, Harness, Run
from runner.domain.episode import EndReason, Turn
from runner.llm.base import Client, Request
from runner.sandbox.base import Sandbox


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """What an agent did, before anybody graded it."""

    end: EndReason
    turns: tuple[Turn, ...]
    prompt: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Call:
    """How the harness's questions become model calls."""

    slot: str
    """``solve/<task>/<sample>``; the turn is appended."""
    scope: str
    temperature: float | None


def play(
    harness: Harness, client: Client, sandbox: Sandbox, call: Call, *, now: Callable[[], float] = time.monotonic
) -> Transcript:
    """Let the client act until the harness ends the episode. Raises InfraError; the caller retries the episode."""
    began = now()
    step: Ask | Run | End = harness.start()
    while not isinstance(step, End):
        if isinstance(step, Run):
            result = sandbox.run(step.command, timeout=step.timeout)
            step = harness.on_result(result, now() - began)
        else:
            request = Request(
                slot=f"{call.slot}/{len(harness.turns)}",
                messages=step.messages,
                max_tokens=step.max_tokens,
                temperature=call.temperature,
                scope=call.scope,
            )
            step = harness.on_reply(client.complete(request), now() - began)
    return Transcript(end=step.reason, turns=tuple(harness.turns), prompt=harness.prompt, seconds=now() - began)
