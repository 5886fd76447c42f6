"""From the recipe's models to clients: Recording(Journaled(Budgeted(Limited(Provider)))), and the checks before that.

``Clients`` is the room of one run: its roles share the journal, the ledger with its budget, the limits of equal models
and their vLLM servers, and all of it is closed together.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from runner import schema
from runner.domain.errors import MissingRequirement, RecipeError
from runner.llm.account import Account
from runner.llm.base import Client, key_of
from runner.llm.journal import Journal
from runner.llm.journaled import JournaledClient
from runner.llm.ledger import Ledger
from runner.llm.limits import BudgetedClient, LimitedClient
from runner.llm.pricing import price_of
from runner.llm.recorder import Recorder, RecordingClient
from runner.llm.replay import ReplayClient, is_recording, replay_folder
from runner.llm.server import VllmServer, find_program
from runner.store.spare import SpareRoom


class Clients:
    """Opens the models of one run. A context manager; its clients live as long as it does, and it closes them."""

    def __init__(self, account: Account, record: Path | None = None) -> None:
        """``record`` takes a copy of every answer, for ``replay``. Raises StorageError."""
        spare = SpareRoom(account.journal_root / ".spare")
        self.ledger = Ledger(account.ledger, account.budget, spare)
        self.account = account
        self._journal = Journal(account.journal_root, spare.append)
        self._stack = ExitStack()
        self._stack.callback(spare.release)
        self._stack.callback(self.ledger.flush)
        self._recorder = None if record is None else self._stack.enter_context(Recorder(record))
        self._providers: list[tuple[schema.Model, Client]] = []

    def open(self, model: schema.Model, role: str) -> Client:
        """The client of a role. Raises what ``check_model`` raises; connects to nothing yet."""
        check_model(model, role, recipes=self.account.recipes)
        check_budget(model, role, self.account.prices, self.account.budget)
        if model.provider is schema.Provider.replay:
            client = self._replay(model, role)
            self._stack.callback(client.close)
            return self._recorded(client)
        return self._recorded(self._journaled(model, self._provider(model, role), price_of(model, self.account.prices)))

    @contextmanager
    def borrow(self, model: schema.Model, role: str, *, free: bool = False) -> Iterator[Client]:
        """A client that is nobody else's: a server that it started is stopped at the end. ``free``: costs nothing.

        Raises what ``open`` raises.
        """
        account = self.account.with_free(model) if free else self.account
        check_model(model, role, recipes=account.recipes)
        check_budget(model, role, account.prices, account.budget)
        price = price_of(model, account.prices)
        if model.provider is schema.Provider.replay:
            client = self._replay(model, role)
        else:
            live = LimitedClient(_live(model, role, self._log(role)), model.concurrency)
            client = self._journaled(model, live, price)
        with closing(client):
            yield self._recorded(client)

    @contextmanager
    def serve(self, model: schema.Model, role: str) -> Iterator[schema.Model]:
        """The model at an address, for a program that asks it itself: a vLLM server is up meanwhile.

        Meanwhile it may spend on the same account, which is looked at afterwards; what it has no way to book itself is
        for ``Ledger.book``. Raises what ``open`` raises, and what the start of a server does.
        """
        check_model(model, role, recipes=self.account.recipes)
        try:
            with self._at_address(model, role) as served:
                yield served
        finally:
            self.ledger.refresh()

    @contextmanager
    def _at_address(self, model: schema.Model, role: str) -> Iterator[schema.Model]:
        if model.provider is not schema.Provider.vllm or model.base_url is not None:
            yield model
            return
        with VllmServer(model, self._log(role), role=role, api_key=api_key(model, role)) as server:
            yield replace(model, base_url=server.address())

    def close(self) -> None:
        """Close all clients and servers, finish the recording. Idempotent. Raises StorageError."""
        self._stack.close()

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _provider(self, model: schema.Model, role: str) -> Client:
        """One live client for equal models, so that they share their concurrency and their server."""
        for known, client in self._providers:
            if known == model:
                return client
        client = LimitedClient(_live(model, role, self._log(role)), model.concurrency)
        self._stack.callback(client.close)
        self._providers.append((model, client))
        return client

    def _replay(self, model: schema.Model, role: str) -> Client:
        return ReplayClient(replay_folder(model, self.account.recipes, role), name=model.name or "replay", role=role)

    def _journaled(self, model: schema.Model, live: Client, price: schema.Price | None) -> Client:
        return JournaledClient(BudgetedClient(live, self.ledger, model.name, price), self._journal, model)

    def _recorded(self, client: Client) -> Client:
        return client if self._recorder is None else RecordingClient(client, self._recorder)

    def _log(self, role: str) -> Path:
        return self.ledger.path.with_name(f"vllm-{role}.log")


def check_model(model: schema.Model, role: str, *, recipes: Path | None = None) -> None:
    """Whether a model can be opened here, without opening it.

    Raises MissingRequirement (key variable, server program) or RecipeError (name, address, recording), in one line.
    ``recipes`` None skips the look at the recording's folder.
    """
    if model.provider is schema.Provider.replay:
        if recipes is not None:
            is_recording(replay_folder(model, recipes, role), role)
        return
    if not model.name:
        raise RecipeError(f"{key_of(role)}.name is empty; it is the model's name at {model.provider.value}")
    if model.concurrency < 1:
        raise RecipeError(f"{key_of(role)}.concurrency is {model.concurrency}; it must be at least 1")
    _check_address(model, role)
    api_key(model, role)
    if model.provider is schema.Provider.vllm and model.base_url is None:
        find_program(model, role)
        _check_path(model, role)


def load_sdk(model: schema.Model) -> None:
    """Import what calls to a model need (half a second and more), for a caller who knows a good moment for it."""
    if model.provider in _SDKS:
        import_module(_SDKS[model.provider])


_SDKS = {
    schema.Provider.anthropic: "anthropic",
    schema.Provider.openai: "openai",
    schema.Provider.vllm: "openai",
}


def check_budget(model: schema.Model, role: str, prices: Mapping[str, schema.Price], budget: schema.Budget) -> None:
    """A budget in dollars needs a price for every live model. Raises RecipeError."""
    if budget.dollars is not None and price_of(model, prices) is None:
        raise RecipeError(
            f"budget.dollars is set, but {key_of(role)}.name {model.name!r} has no price; add it under `prices` "
            "(see configs/prices/default.yaml), with input: 0 and output: 0 if it costs nothing, "
            "or use budget.calls"
        )


def api_key(model: schema.Model, role: str) -> str | None:
    """The key from the environment; None for servers without keys. Raises MissingRequirement naming the variable."""
    name = model.api_key_env
    if name is None:
        needs_one = model.provider in (schema.Provider.openai, schema.Provider.anthropic) and model.base_url is None
        if needs_one:
            raise RecipeError(
                f"{key_of(role)}.api_key_env is null, but {model.provider.value} needs a key; "
                "give the NAME of the environment variable that holds it"
            )
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise MissingRequirement(
            f"{key_of(role)} needs the environment variable {name} (recipe key {key_of(role)}.api_key_env); "
            "export it or use model=replay"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise MissingRequirement(
            f"the environment variable {name} holds characters that no API key has; export it anew"
        )
    return key


def _check_address(model: schema.Model, role: str) -> None:
    parts = urlsplit(model.base_url or "http://default")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RecipeError(f"{key_of(role)}.base_url is {model.base_url!r}; it must look like http://host:8000/v1")


def _check_path(model: schema.Model, role: str) -> None:
    """A name that is plainly a path must lead somewhere: vLLM takes some 15 s to say so, and says it less plainly."""
    if model.name.startswith(("/", "./", "../", "~")) and not Path(model.name).exists():
        raise RecipeError(f"{key_of(role)}.name is {model.name!r}, but there is nothing at this path")


def _live(model: schema.Model, role: str, log: Path) -> Client:
    key = api_key(model, role)
    if model.provider is schema.Provider.anthropic:
        from runner.llm.anthropic import AnthropicClient

        return AnthropicClient(model, key, role=role)
    if model.provider is schema.Provider.openai:
        from runner.llm.openai import OpenAIClient

        return OpenAIClient(model, key, role=role)
    from runner.llm import vllm

    if model.base_url is not None:
        return vllm.running(model, key, role=role)
    return vllm.VllmClient(model, VllmServer(model, log, role=role, api_key=key), key, role=role)
