"""An episode inside Harbor while it is played: its harness, its model, and what is written down of it."""

import threading
import time
from decimal import Decimal
from pathlib import Path

from runner.agent.harness import PROMPTS, Harness
from runner.agent.loop import Call, play
from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.domain.plain import plain
from runner.evaluation.harbor.room import Room
from runner.evaluation.harbor.sandbox import Environment, HarborSandbox
from runner.llm.base import Client, Completion, Request
from runner.prompts import PromptSet
from runner.rollout.bridge import Bridge
from runner.store.jsonl import write_json

UNGRADED = "not graded yet"


class Played:
    """One episode's state. It can be written down at any moment, however the episode ends."""

    def __init__(self, room: Room, instruction: str, *, trial: str) -> None:
        """Raises StorageError."""
        self.settings, self.name = room.settings, trial
        agent = self.settings.agent
        self.harness = Harness(agent, instruction, PromptSet.open(PROMPTS, agent.prompt))
        self.client = _Counting(room.client)
        self.call = Call(
            slot=room.slot(trial, instruction), scope=self.settings.scope, temperature=self.settings.temperature
        )
        self.end = EndReason.TIME_LIMIT  # unless the harness says otherwise: Harbor's own limit
        self._began = time.monotonic()

    @property
    def turns(self) -> list[Turn]:
        """The finished turns."""
        return self.harness.turns

    @property
    def cost(self) -> Decimal | None:
        """US dollars so far; None where the price is unknown."""
        return self.client.cost

    def write(self, path: Path) -> None:
        """Write the episode. Its outcome stands as infra until the verifier's word is known (``results.py``)."""
        episode = Episode(
            task_id=self.name,
            sample=0,
            outcome=Outcome.INFRA,
            end=self.end,
            turns=tuple(self.turns),
            prompt=self.harness.prompt,
            verdict=UNGRADED,
            seconds=round(time.monotonic() - self._began, 3),
        )
        write_json(path, plain(episode))


def play_episode(played: Played, environment: Environment, bridge: Bridge) -> None:
    """Play it to its end. Raises InfraError, Abandoned and what the model's client raises."""
    played.end = EndReason.INFRA
    sandbox = HarborSandbox(environment, bridge, output_bytes=played.settings.output_bytes)
    played.end = EndReason.TIME_LIMIT
    try:
        played.end = play(played.harness, played.client, sandbox, played.call).end
        sandbox.quiesce()
    except Exception:
        if not bridge.stopped.is_set():  # else that it fails now is no news
            played.end = EndReason.INFRA
        raise


class _Counting:
    """A client that adds up what its calls cost."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self.cost: Decimal | None = Decimal(0)

    def complete(self, request: Request) -> Completion:
        completion = self._client.complete(request)
        with self._lock:
            known = self.cost is not None and completion.cost is not None
            self.cost = self.cost + completion.cost if known else None  # type: ignore[operator]
        return completion

    def close(self) -> None:
        self._client.close()
