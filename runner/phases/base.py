"""What a phase is, and what it may use while it runs."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from runner.domain.episode import Outcome
from runner.domain.plain import fingerprint
from runner.llm.account import Account
from runner.llm.base import Client, Usage
from runner.sandbox.base import Backend
from runner.schema import Config, Model, Provider
from runner.share import share_dir
from runner.tracking.base import PhaseReport


class Watcher(Protocol):
    """Who is told how far a phase is: the console's progress bar, the tracker."""

    def begin(self, phase: str, total: int, done: int) -> None:
        """A phase starts with ``done`` of ``total`` items already there."""

    def advance(self, phase: str, outcome: Outcome, label: str) -> None:
        """One more item ended; ``label`` is its reason ("kept", "near_duplicate", "turn_limit")."""

    def figures(self, phase: str, step: int, metrics: Mapping[str, float]) -> None:
        """A training step's figures (``ppo/reward``), each step once and in order."""

    def end(self, phase: str) -> None:
        """The phase is over."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a phase will cost, before it runs."""

    calls: int = 0
    """Model calls at most (every round and turn used)."""
    likely_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    """For ``likely_calls``; None when a price is unknown."""
    note: str = ""
    """What is not in it, in a sentence."""


class Resources(Protocol):
    """The expensive things of a run, opened at first use and shared by its phases."""

    def client(self, role: str) -> Client:
        """The model of a role: ``generator`` or ``solver``. Raises UserError."""

    def borrow(self, model: Model, role: str, *, free: bool = False) -> AbstractContextManager[Client]:
        """Another model, for a while: a server that it needs is started at the first call and stopped at the end.

        ``role`` is its key in the recipe; ``free``: it costs nothing, whatever the prices say. Raises UserError.
        """

    def serve(self, model: Model, role: str) -> AbstractContextManager[Model]:
        """A model at an address, for a program of its own (Harbor): a server that it needs is up meanwhile."""

    @property
    def account(self) -> Account:
        """On which such a program asks."""

    def book(self, slot: str, model: str, usage: Usage, cost: Decimal | None, calls: int) -> None:
        """Book what a program could not book itself, once a ``slot``. Raises StorageError."""

    def check_budget(self) -> None:
        """Raises BudgetExceeded when no further call is in the budget."""

    def backend(self) -> Backend:
        """Where sandboxes come from. Raises UserError."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Everything a phase may touch."""

    config: Config
    folder: Path
    """Its partial folder: append to files in it, and what is there after a crash is gone on with."""
    upstream: Mapping[str, Path]
    """Phase name -> its finished folder."""
    resources: Resources
    watcher: Watcher
    stop: Event
    """Set on an interrupt: start nothing new."""
    cache: Path
    """For what is made once on a machine."""
    run_label: str
    """The run's name, which marks what it leaves in a container engine."""


class Phase(Protocol):
    """One step of a recipe."""

    name: str
    version: int
    """Raised when the same recipe would give other results."""
    upstream: Sequence[str]

    def reads(self, config: Config) -> Any:
        """The parts of the recipe (and of our own files: prompts) that its results depend on, as plain values."""

    def run(self, context: Context) -> None:
        """Do what is not done yet. Raises InfraError, Incomplete, BudgetExceeded, UserError."""

    def report(self, config: Config, folder: Path, fingerprint: str) -> PhaseReport:
        """What is worth comparing, read from the finished folder."""

    def estimate(self, config: Config, items: int) -> Estimate:
        """The calls, tokens and dollars for ``items`` upstream items."""


@dataclass(frozen=True, kw_only=True)
class Spend:
    """Model use of an item or a phase, in the provider's own figures."""

    calls: int = 0
    usage: Usage = Usage()

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(calls=self.calls + other.calls, usage=self.usage + other.usage)

    @classmethod
    def from_plain(cls, row: Mapping[str, Any]) -> "Spend":
        return cls(calls=row["calls"], usage=Usage(**row["usage"]))


def model_identity(model: Model) -> dict[str, Any]:
    """The settings of a model that its answers depend on: not its address, limits or retries."""
    return {
        "provider": model.provider.name,
        "name": model.name,
        "temperature": model.temperature,
        "reasoning": model.reasoning,
        "reasoning_effort": model.reasoning_effort,
        "extra_body": model.extra_body,
        "recording": _recording(model),
    }


def _recording(model: Model) -> str | None:
    """A digest of the recording a replay reads: another text is another model, another folder is not."""
    if model.provider is not Provider.replay or not model.replay:
        return None
    folder = share_dir("recipes") / model.replay
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".jsonl"))
    return fingerprint([[path.name, hashlib.sha256(path.read_bytes()).hexdigest()] for path in files])


def sandbox_identity(config: Config) -> dict[str, Any]:
    """The settings of the sandbox that results depend on: not its concurrency or address."""
    box = config.sandbox
    return {
        "backend": box.backend,
        "base_image": box.base_image,
        "build_seconds": box.build_seconds,
        "verifier_seconds": box.verifier_seconds,
        "memory_mb": box.memory_mb,
        "pids": box.pids,
        "cpus": box.cpus,
        "output_bytes": box.output_bytes,
        "root": box.root,
    }


def sandbox_world(config: Config) -> dict[str, Any]:
    """The settings that what commands print depends on. Part of a call's scope: limits of time and memory are not, so
    that raising one does not ask every model again.
    """
    box = config.sandbox
    return {"backend": box.backend, "base_image": box.base_image, "root": box.root}
