"""The room of one run: roles that share what they should, refusals before anything is paid, costs to the cent."""

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from support.accounts import account
from support.loopback import Billed, Chance, Fault, Loopback
from support.models import KEY, ask, model_on

from runner import schema
from runner.domain.errors import BudgetExceeded, InfraError, MissingRequirement, RecipeError, UserError
from runner.llm.base import Completion, Usage
from runner.llm.factory import Clients, check_budget, check_model
from runner.llm.journal import entries
from runner.llm.pricing import cost

PRICES = {"tiny": schema.Price(input=0.15, output=0.6, cached=0.075)}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", f"  {KEY}\n")


def room(folder: Path, budget: schema.Budget = schema.Budget(), record: Path | None = None, **more: object) -> Clients:
    keys = {"prices": PRICES, "ledger": folder / "run" / "ledger.jsonl", **more}
    return Clients(account(folder, budget=budget, **keys), record)


def _usage(bill: Billed) -> Usage:
    return Usage(input_tokens=bill.input_tokens, output_tokens=bill.output_tokens, cached_tokens=bill.cached_tokens)


def test_costs_add_up_to_the_cent_over_both_apis_under_faults(tmp_path: Path) -> None:
    kinds = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.TRUNCATED, Fault.EMPTY_BODY, Fault.EMPTY_REPLY)
    with Loopback(faults=Chance(0.2, kinds, seed=3), key=KEY) as server, room(tmp_path) as clients:
        roles = [clients.open(model_on(server, api, max_retries=5), api) for api in ("openai", "anthropic")]
        with ThreadPoolExecutor(16) as pool:
            done = list(
                pool.map(lambda i: roles[i % 2].complete(ask(f"solve/00000{i % 2}/{i}/0", f"say {i}")), range(40))
            )
        spent = clients.ledger.total()
        assert len(server.calls) > 40
    billed = [cost(PRICES["tiny"], _usage(bill)) for bill in server.billed]
    assert len(billed) == spent.calls == 40
    assert spent.total == sum(billed, Decimal(0)) == sum((d.cost or Decimal(0) for d in done), Decimal(0))


def test_what_was_answered_is_not_asked_again_by_the_next_attempt(tmp_path: Path) -> None:
    with Loopback() as server:
        for _ in range(2):
            with room(tmp_path) as clients:
                client = clients.open(model_on(server), "solver")
                texts = [client.complete(ask(last=f"{i}", slot=f"solve/000001/{i}/0")).text for i in range(3)]
                assert texts == ["echo: 0", "echo: 1", "echo: 2"]
                assert clients.ledger.total().calls == 3
        assert len(server.calls) == 3
    assert len(list(entries(tmp_path / "journal"))) == 3


def test_roles_share_the_budget(tmp_path: Path) -> None:
    with Loopback() as server, room(tmp_path, schema.Budget(calls=2)) as clients:
        roles = [clients.open(model_on(server, name=name), name) for name in ("generator", "solver")]
        for number, role in enumerate(roles):
            role.complete(ask(slot=f"solve/000001/{number}/0"))
        with pytest.raises(BudgetExceeded, match="all 2 calls"):
            roles[0].complete(ask(slot="solve/000001/9/0"))
        assert roles[0].complete(ask(slot="solve/000001/0/0")).replayed
        assert len(server.calls) == 2


def test_equal_models_share_their_concurrency(tmp_path: Path) -> None:
    with Loopback(latency=0.02) as server, room(tmp_path) as clients:
        model = model_on(server, concurrency=2)
        roles = [clients.open(model, name) for name in ("generator", "solver")]
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda i: roles[i % 2].complete(ask(slot=f"solve/000001/{i}/0")), range(24)))
        assert server.most_at_once == 2


def test_a_recorded_run_replays_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback() as server, room(tmp_path, record=tmp_path / "recorded") as clients:
        clients.open(model_on(server), "solver").complete(ask(last="hi"))
    monkeypatch.delenv("TEST_KEY")
    model = schema.Model(replay="recorded")
    with room(tmp_path, schema.Budget(calls=0, dollars=0.0), prices={}) as clients:
        assert clients.open(model, "solver").complete(ask(last="something else")).text == "echo: hi"
        assert clients.ledger.total().calls == 1  # the recording run's


def test_the_key_is_in_no_file_and_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        Loopback(key="another") as server,
        room(tmp_path, record=tmp_path / "rec") as clients,
        pytest.raises(UserError) as caught,
    ):
        clients.open(model_on(server), "solver").complete(ask())
    with Loopback(key=KEY) as server, room(tmp_path, record=tmp_path / "rec") as clients:
        client = clients.open(model_on(server), "solver")
        client.complete(ask())
        seen = caplog.text + str(caught.value) + repr(client) + repr(vars(clients))
    seen += "".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in seen


def test_a_missing_key_names_the_variable_the_recipe_key_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    model = schema.Model(provider=schema.Provider.anthropic, name="c", api_key_env="ANTHROPIC_API_KEY")
    with pytest.raises(MissingRequirement) as caught:
        check_model(model, "solver")
    assert str(caught.value) == (
        "models.solver needs the environment variable ANTHROPIC_API_KEY (recipe key models.solver.api_key_env); "
        "export it or use model=replay"
    )


HERE = schema.Vllm(command=["sh"])
LIVE = schema.Model(provider=schema.Provider.openai, name="tiny", api_key_env="TEST_KEY")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (replace(LIVE, name=""), r"models\.solver\.name is empty"),
        (replace(LIVE, api_key_env=None), r"models\.solver\.api_key_env is null"),
        (replace(LIVE, base_url="localhost:8000"), "http://host:8000/v1"),
        (replace(LIVE, base_url="localhost"), "http://host:8000/v1"),
        (replace(LIVE, concurrency=0), "at least 1"),
        (replace(LIVE, provider=schema.Provider.vllm, vllm=schema.Vllm(command=["no-such-program"])), "pip install"),
        (replace(LIVE, provider=schema.Provider.vllm, vllm=schema.Vllm(command=[])), "vllm, serve"),
        (
            replace(LIVE, provider=schema.Provider.vllm, name="/no/model", vllm=HERE),
            "nothing at this path",
        ),
        (schema.Model(), r"models\.solver\.replay names no folder"),
        (schema.Model(replay="nowhere"), "is no folder"),
    ],
)
def test_a_model_that_cannot_work_is_refused_early_in_one_line(tmp_path: Path, model: schema.Model, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        check_model(model, "solver", recipes=tmp_path)
    assert "\n" not in str(caught.value)
    with room(tmp_path) as clients, pytest.raises(UserError):
        clients.open(model, "solver")


def test_a_key_with_odd_characters_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-secret\nsk-two")
    with pytest.raises(MissingRequirement, match="TEST_KEY") as caught:
        check_model(LIVE, "solver")
    assert "sk-" not in str(caught.value)


def test_a_dollar_budget_with_an_unknown_price_is_refused_at_the_start(tmp_path: Path) -> None:
    dollars = schema.Budget(dollars=5.0)
    other = replace(LIVE, name="other")
    with pytest.raises(RecipeError, match=r"'other' has no price.*configs/prices") as caught:
        check_budget(other, "solver", PRICES, dollars)
    assert "budget.calls" in str(caught.value)
    with room(tmp_path, dollars) as clients, pytest.raises(RecipeError):
        clients.open(other, "solver")
    check_budget(other, "solver", {"other": schema.Price()}, dollars)
    check_budget(other, "solver", PRICES, schema.Budget(calls=5))
    check_budget(schema.Model(), "solver", {}, dollars)


def test_without_a_price_the_cost_is_unknown_not_zero(tmp_path: Path) -> None:
    with Loopback() as server, room(tmp_path, prices={}) as clients:
        assert clients.open(model_on(server), "solver").complete(ask()).cost is None
        assert clients.ledger.total().total is None
    assert json.loads((tmp_path / "run" / "ledger.jsonl").read_text())["cost"] is None


def test_provider_trouble_is_not_paid_and_not_recorded(tmp_path: Path) -> None:
    with Loopback(faults=[Fault.SERVER_ERROR] * 2) as server, room(tmp_path, schema.Budget(calls=1)) as clients:
        client = clients.open(model_on(server, max_retries=0), "solver")
        for _ in range(2):
            with pytest.raises(InfraError):
                client.complete(ask())
        done = client.complete(ask())
    assert isinstance(done, Completion)
    assert len(list(entries(tmp_path / "journal"))) == 1
