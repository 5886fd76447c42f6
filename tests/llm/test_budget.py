"""Prices, the ledger and the hard stop."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.disk import no_file_larger_than
from support.models import ask

from runner import schema
from runner.domain.errors import BudgetExceeded, ProviderError, StorageError
from runner.llm.base import Completion, Request, Usage
from runner.llm.ledger import Ledger
from runner.llm.limits import BudgetedClient, LimitedClient
from runner.llm.pricing import cost, price_of, show, worst_case

PRICE = schema.Price(input=3.0, output=15.0, cached=0.3)
USAGE = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)
COST = Decimal("0.00342")  # 600 x $3 + 400 x $0.30 + 100 x $15, per million


class Fixed:
    """Answers with one usage; may wait for a signal or fail."""

    def __init__(self, *, gate: threading.Event | None = None, fail: bool = False) -> None:
        self._gate = gate
        self.fail = fail
        self.calls = 0

    def complete(self, request: Request) -> Completion:
        self.calls += 1
        if self._gate is not None:
            assert self._gate.wait(10)
        if self.fail:
            raise ProviderError("down")
        return Completion(text="x", usage=USAGE)

    def close(self) -> None:
        return


def test_a_cost_is_exact_and_counts_the_cache() -> None:
    assert cost(PRICE, USAGE) == COST
    assert cost(schema.Price(input=3.0, output=15.0), USAGE) == Decimal("0.0045")
    assert cost(schema.Price(input=0.1, output=0.2), Usage(input_tokens=1, output_tokens=1)) == Decimal("0.0000003")


def test_an_unknown_price_is_an_unknown_cost_and_free_is_free() -> None:
    assert cost(None, USAGE) is None
    assert show(None) == "unknown"
    assert cost(schema.Price(), USAGE) == 0
    assert show(Decimal(0)) == "$0.00"


def test_money_is_shown_to_the_cent_and_small_sums_finer() -> None:
    assert [show(Decimal(x)) for x in ("12.345", "1", "0.00342", "1000")] == ["$12.35", "$1.00", "$0.0034", "$1000.00"]


def test_prices_are_found_by_name_and_a_replay_costs_nothing() -> None:
    prices = {"tiny": PRICE}
    live = schema.Model(provider=schema.Provider.openai, name="tiny")
    assert price_of(live, prices) == PRICE
    assert price_of(schema.Model(provider=schema.Provider.vllm, name="other"), prices) is None
    assert price_of(schema.Model(), {}) == schema.Price()


@given(st.text(max_size=2000), st.integers(0, 5000))
def test_the_worst_case_is_never_below_a_real_call(text: str, written: int) -> None:
    request = ask(last=text, max_tokens=5000)
    tokens = sum(len(m.content.encode()) for m in request.messages)
    real = cost(PRICE, Usage(input_tokens=tokens, output_tokens=written))
    worst = worst_case(PRICE, request)
    assert real is not None
    assert worst is not None
    assert worst >= real


def test_the_shipped_prices_are_prices() -> None:
    table = yaml.safe_load((Path(__file__).parents[2] / "configs/prices/default.yaml").read_text())
    assert {"gpt-4.1", "o3", "claude-sonnet-5-5"} <= set(table)
    for row in table.values():
        price = schema.Price(**row)
        assert 0 < (price.cached or 0) <= price.input <= price.output


def _client(ledger: Ledger, inner: Fixed | None = None, price: schema.Price | None = PRICE) -> BudgetedClient:
    return BudgetedClient(inner or Fixed(), ledger, "tiny", price)


def test_every_live_call_is_a_line_with_its_cost(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    assert _client(ledger).complete(ask()).cost == COST
    assert _client(ledger, price=None).complete(ask()).cost is None
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["cost"] for row in rows] == ["0.00342", None]
    assert rows[0]["slot"] == ask().slot
    assert rows[0]["model"] == "tiny"
    assert rows[0]["usage"] == {"input_tokens": 1000, "output_tokens": 100, "cached_tokens": 400}


def test_an_unknown_cost_makes_the_total_unknown_not_smaller(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    _client(ledger).complete(ask())
    assert ledger.total().total == COST
    _client(ledger, price=None).complete(ask())
    spent = ledger.total()
    assert (spent.calls, spent.dollars, spent.unpriced, spent.total) == (2, COST, 1, None)
    assert ledger.by_model()["tiny"].usage.input_tokens == 2000


def test_the_call_budget_stops_before_the_call_and_counts_earlier_attempts(tmp_path: Path) -> None:
    path, inner = tmp_path / "l", Fixed()
    client = _client(Ledger(path, schema.Budget(calls=2)), inner)
    client.complete(ask())
    resumed = _client(Ledger(path, schema.Budget(calls=2)), inner)
    resumed.complete(ask())
    with pytest.raises(BudgetExceeded, match=r"all 2 calls .* raise budget\.calls and run again"):
        resumed.complete(ask())
    assert inner.calls == 2
    _client(Ledger(path, schema.Budget(calls=3)), inner).complete(ask())
    assert inner.calls == 3


def test_the_dollar_budget_is_never_passed(tmp_path: Path) -> None:
    inner, request = Fixed(), ask(last="x" * 4000, max_tokens=100)
    worst = worst_case(PRICE, request)
    assert worst is not None
    limit = 2 * COST + worst
    ledger = Ledger(tmp_path / "l", schema.Budget(dollars=float(limit)))
    client = _client(ledger, inner)
    with ThreadPoolExecutor(8) as pool:
        failures = [future.exception() for future in [pool.submit(client.complete, request) for _ in range(8)]]
    assert inner.calls == sum(failure is None for failure in failures) == 3
    assert ledger.total().dollars <= limit
    with pytest.raises(
        BudgetExceeded, match=r"spent \$0\.0103 of \$0\.02\d\d after 3 calls, and the next may"
    ) as caught:
        client.complete(request)
    assert "raise budget.dollars and run again to go on" in str(caught.value)


def test_a_free_model_never_meets_the_dollar_budget(tmp_path: Path) -> None:
    client = _client(Ledger(tmp_path / "l", schema.Budget(dollars=0.0)), price=schema.Price())
    assert client.complete(ask()).cost == 0


def test_calls_in_flight_are_waited_for_and_not_counted_as_spent(tmp_path: Path) -> None:
    gate, inner = threading.Event(), Fixed(gate=threading.Event())
    inner._gate = gate
    client = _client(Ledger(tmp_path / "l", schema.Budget(calls=3)), inner)
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(client.complete, ask()) for _ in range(8)]
        gate.set()
        failures = [future.exception() for future in waiting]
    assert inner.calls == 3
    assert sum(failure is None for failure in failures) == 3
    assert all(isinstance(failure, BudgetExceeded) for failure in failures if failure is not None)


def test_a_failed_call_costs_nothing_and_gives_its_reservation_back(tmp_path: Path) -> None:
    inner = Fixed(fail=True)
    ledger = Ledger(tmp_path / "l", schema.Budget(calls=1))
    client = _client(ledger, inner)
    for _ in range(3):
        with pytest.raises(ProviderError):
            client.complete(ask())
    inner.fail = False
    client.complete(ask())
    assert ledger.total().calls == 1


def test_spending_that_cannot_be_written_is_kept_and_stops_the_next_call(tmp_path: Path) -> None:
    path, inner = tmp_path / "l", Fixed()
    ledger = Ledger(path)
    client = _client(ledger, inner)
    with no_file_larger_than(10):
        assert client.complete(ask()).text == "x"
        with pytest.raises(StorageError, match="cannot write"):
            client.complete(ask())
    assert (inner.calls, ledger.total().calls) == (1, 1)
    client.complete(ask())
    assert Ledger(path).total().calls == 2


def test_sums_over_threads_are_exact(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    client = _client(ledger)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda _: client.complete(ask()), range(200)))
    assert ledger.total().dollars == 200 * COST
    assert Ledger(tmp_path / "l").total() == ledger.total()


def test_no_more_calls_than_the_models_concurrency_are_in_flight() -> None:
    lock, now, most = threading.Lock(), 0, 0

    class Slow(Fixed):
        def complete(self, request: Request) -> Completion:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            threading.Event().wait(0.01)
            with lock:
                now -= 1
            return super().complete(request)

    client = LimitedClient(Slow(), 3)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda _: client.complete(ask()), range(24)))
    assert most == 3


def test_what_another_process_spends_is_counted_when_the_ledger_is_looked_at_again(tmp_path: Path) -> None:
    ours = Ledger(tmp_path / "ledger.jsonl", schema.Budget(calls=3))
    _client(ours).complete(ask())
    _client(Ledger(tmp_path / "ledger.jsonl")).complete(ask())
    assert ours.total().calls == 1
    ours.refresh()
    assert (ours.total().calls, ours.total().dollars, ours.by_model()["tiny"].calls) == (2, 2 * COST, 2)
    ours.check()


def test_what_a_program_asked_by_itself_is_booked_once_and_leaves_no_room(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", schema.Budget(calls=7))
    for _ in range(2):
        ledger.book("harbor/one/terminus-2/a__1", "tiny", USAGE, COST, calls=7)
    assert ledger.total() == Ledger(ledger.path).total()
    assert (ledger.total().calls, ledger.total().dollars) == (7, COST)
    with pytest.raises(BudgetExceeded, match="all 7 calls"):
        ledger.check()
    ledger.book("harbor/one/terminus-2/b__1", "tiny", USAGE, None, calls=2)
    assert (ledger.total().total, ledger.total().unpriced) == (None, 2)
