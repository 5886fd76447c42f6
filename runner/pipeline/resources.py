"""The expensive things of a run, opened when a phase first asks and closed together."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Event

from runner.evaluation.harbor.program import engine_of, require_harbor
from runner.llm.account import Account
from runner.llm.base import Client, Completion, Request, Usage
from runner.llm.factory import Clients, check_budget, check_model, load_sdk
from runner.phases.registry import TRAINING
from runner.phases.work import Stopped
from runner.pipeline.layout import Outputs, RunFolder
from runner.sandbox.base import Backend
from runner.sandbox.registry import open_backend
from runner.schema import Config, Model
from runner.schema_evaluation import Evaluation
from runner.share import share_dir
from runner.training.compile import check_trainer

log = logging.getLogger(__name__)

ROLES = {"generate": "generator", "filter": "solver"}
"""Which model a phase calls."""


@dataclass(frozen=True)
class StoppableClient:
    """Asks nothing any more once a stop is wanted: what is in flight is answered, journaled and then left."""

    inner: Client
    stop: Event
    on_stop: Callable[[], None]
    """Called by whoever notices that a stop is wanted."""

    def complete(self, request: Request) -> Completion:
        """The inner client's answer. Raises Stopped instead of asking."""
        if self.stop.is_set():
            self.on_stop()
            raise Stopped("interrupted")
        return self.inner.complete(request)

    def close(self) -> None:
        """The inner client belongs to its room, which closes it."""


class RunResources:
    """Implements ``phases.base.Resources``. A context manager; thread-safe."""

    def __init__(self, config: Config, outputs: Outputs, run: RunFolder, stop: Event) -> None:
        self._config = config
        self._stop = stop
        self._outputs = outputs
        self._run = run
        self._lock = threading.RLock()
        self._clients: Clients | None = None
        self._backend: Backend | None = None

    def client(self, role: str) -> Client:
        """The model of a role. Raises UserError."""
        with self._lock:
            return self._stoppable(self._room().open(getattr(self._config.models, role), role))

    @contextmanager
    def borrow(self, model: Model, role: str, *, free: bool = False) -> Iterator[Client]:
        """Another model, until the end of the ``with``. Raises UserError."""
        with self._lock:
            room = self._room()
        with room.borrow(model, role, free=free) as client:
            yield self._stoppable(client)

    @contextmanager
    def serve(self, model: Model, role: str) -> Iterator[Model]:
        """A model at an address, until the end of the ``with``. Raises UserError."""
        with self._lock:
            room = self._room()
        with room.serve(model, role) as served:
            yield served

    @property
    def account(self) -> Account:
        """The run's. Its paths are absolute, for a program that runs in another folder."""
        return Account(
            journal_root=self._outputs.journal.absolute(),
            ledger=self._run.ledger.absolute(),
            recipes=share_dir("recipes").absolute(),
            prices=self._config.prices,
            budget=self._config.budget,
        )

    def book(self, slot: str, model: str, usage: Usage, cost: Decimal | None, calls: int) -> None:
        """What a program could not book itself, once a ``slot``. Raises StorageError."""
        with self._lock:
            ledger = self._room().ledger
        ledger.book(slot, model, usage, cost, calls)

    def check_budget(self) -> None:
        """Raises BudgetExceeded when no further call is in the budget."""
        with self._lock:
            ledger = self._room().ledger
        ledger.check()

    def _room(self) -> Clients:
        if self._clients is None:
            record = self._config.record
            self._clients = Clients(self.account, Path(record) if record else None)
        return self._clients

    def _stoppable(self, client: Client) -> Client:
        return StoppableClient(client, self._stop, self._stop_backend)

    def backend(self) -> Backend:
        """The sandboxes. Raises UserError."""
        with self._lock:
            if self._backend is None:
                self._backend = open_backend(
                    self._config.sandbox, cache=self._outputs.cache, run_label=self._run.path.name
                )
                reaped = self._backend.reap()
                if reaped:
                    log.info("removed %d sandboxes that a killed run had left", reaped)
            return self._backend

    def _stop_backend(self) -> None:
        """Those who wait for a sandbox would only find out in it that they are to stop."""
        with self._lock:
            backend = self._backend
        if backend is not None:
            backend.stop()

    @property
    def backend_name(self) -> str:
        """What the recipe's backend word came to mean; empty while none was opened."""
        return self._backend.name if self._backend else ""

    def close(self) -> None:
        """Close everything. Idempotent."""
        with self._lock:
            backend, self._backend = self._backend, None
            clients, self._clients = self._clients, None
        try:
            if backend is not None:
                backend.close()
        finally:
            if clients is not None:
                clients.close()

    def __enter__(self) -> "RunResources":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def check_requirements(config: Config, phases: list[str]) -> None:
    """Refuse a recipe that lacks keys, prices, recordings or its trainer, before anything is paid. Raises UserError."""
    for phase in phases:
        role = ROLES.get(phase)
        if role:
            model = getattr(config.models, role)
            check_model(model, role, recipes=share_dir("recipes"))
            check_budget(model, role, config.prices, config.budget)
    if set(phases) & set(TRAINING):
        check_trainer(config)
    if "evaluate" in phases and config.eval is not None:
        _check_evaluation(config, config.eval)


def _check_evaluation(config: Config, settings: Evaluation) -> None:
    for section, part in (("dev", settings.dev), ("terminalbench", settings.terminalbench)):
        for name, model in (part.models if part is not None else {}).items():
            role = f"eval.{section}.models.{name}"
            check_model(model, role, recipes=share_dir("recipes"))
            check_budget(model, role, config.prices, config.budget)
    bench = settings.terminalbench
    if bench is not None:
        require_harbor(bench.python, os.environ)
        engine_of(bench.environment)


def load_sdks(config: Config, phases: list[str]) -> None:
    """Import what the phases' model calls need, before the tracker's thread imports MLflow.

    Two imports at once take turns; with this one first, the models already answer during the other.
    """
    for phase in phases:
        if phase in ROLES:
            load_sdk(getattr(config.models, ROLES[phase]))
