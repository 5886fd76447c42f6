"""The quickstart against loopback servers through the real SDKs: faults on the way, costs to the cent, no key anywhere.

The sandbox agrees with everything, except where a recording has to be replayed in a real one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.agreeable import ENVIRONMENT, WORDS
from support.endless import Workplace, live_overrides, quickstart_server
from support.loopback import HUGE, Billed, Call, Chance, Fault, Loopback, Reply
from support.stores import Store

from runner import schema
from runner.llm.base import Usage
from runner.llm.pricing import cost
from runner.store.jsonl import read_lines
from runner.tracking.address import default_uri
from runner.tracking.mlflow.quiet import quiet_mlflow

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

KEY = "sk-test-5d0a77c1e9b24f68a3"
APIS = ("openai", "anthropic", "compatible")
SMALL = ("generate.draws=4", "filter.n=2")
EVERY_FAULT = (
    *(Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.RESET, Fault.CUT, Fault.TRUNCATED, Fault.HTML),
    *(Fault.EMPTY_BODY, Fault.NO_CHOICES, Fault.NO_USAGE, Fault.HANG),
)
PRICES = {
    "openai": ("gpt-4.1", schema.Price(input=2.0, output=8.0, cached=0.5)),
    "anthropic": ("claude-sonnet-4-5", schema.Price(input=3.0, output=15.0, cached=0.3)),
    "compatible": ("test-model", schema.Price(input=0.37, output=1.13, cached=0.11)),
}


def words_for(api: str, server: Loopback) -> list[str]:
    """Overrides that point both roles at a server through one of the three APIs, with a key and a price."""
    name, price = PRICES[api]
    url = server.url if api == "anthropic" else server.openai_url
    words = [*live_overrides(url, name=name)[1:], f"model={'claude' if api == 'anthropic' else api}"]
    for role in ("generator", "solver"):
        words += [f"models.{role}.api_key_env=TEST_KEY", f"models.{role}.timeout_seconds=5"]
    shown = f"{{input: {price.input}, output: {price.output}, cached: {price.cached}}}"
    return [*words, f"+prices={{{name}: {shown}}}"]


@contextmanager
def serving(**options: Any) -> Iterator[Loopback]:
    """The quickstart's replies, half of each prompt read from the cache, for those who have the key."""
    server = quickstart_server(key=KEY, **options)
    recorded = server.reply

    def reply(call: Call) -> Reply:
        answer = recorded(replace(call, messages=tuple(without_nonsense(call.messages))))
        assert isinstance(answer, Reply)
        return replace(answer, cached_tokens=(answer.input_tokens or 0) // 2)

    server.reply = reply
    with server:
        yield server


def without_nonsense(messages: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """A conversation without empty and huge replies and what was said to them: those are in no recording."""
    said = iter(messages)
    for role, content in said:
        if role == "assistant" and (content == HUGE or content in ("", "(empty)", "(empty reply)")):
            next(said)
        else:
            yield role, content


@dataclass(frozen=True)
class Books:
    """What a run cost, by everybody's account. None where somebody does not know."""

    billed: Decimal
    ledger: Decimal
    journal: Decimal
    reports: float


def books(place: Workplace, server: Loopback, api: str, metrics: Mapping[str, float]) -> Books:
    price = PRICES[api][1]
    ledgers = [row for path in (place.store.parent / "runs").glob("*/ledger.jsonl") for row in read_lines(path)]
    return Books(
        billed=sum((charged(price, bill) for bill in server.billed), Decimal(0)),
        ledger=sum((Decimal(row["cost"]) for row in ledgers), Decimal(0)),
        journal=sum((Decimal(row["cost"]) for row in place.journal()), Decimal(0)),
        reports=metrics["generate/dollars"] + metrics["filter/dollars"],
    )


def tracked(place: Workplace) -> Mapping[str, float]:
    """The metrics of the only run in MLflow."""
    with quiet_mlflow(10.0):
        (parent,) = Store(default_uri(place.store.parent)).parents()
    metrics: Mapping[str, float] = parent.data.metrics
    return metrics


def charged(price: schema.Price, bill: Billed) -> Decimal:
    usage = Usage(input_tokens=bill.input_tokens, output_tokens=bill.output_tokens, cached_tokens=bill.cached_tokens)
    found = cost(price, usage)
    assert found is not None
    return found


def workplace_in(folder: Path, key: str | None = KEY) -> Workplace:
    environment = {**ENVIRONMENT, **({"TEST_KEY": key} if key else {})}
    return Workplace(folder / "work", WORDS, environment)


def assert_key_nowhere(place: Workplace, printed: str) -> None:
    assert KEY not in printed
    holders = [p for p in place.folder.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert holders == []


def assert_nothing_paid_twice(place: Workplace, server: Loopback) -> None:
    slots = Counter(row["slot"] for row in place.journal())
    assert set(slots.values()) == {1}, "a journal slot was answered twice"
    assert len(server.billed) == len(slots)


@pytest.mark.parametrize("api", APIS)
def test_every_fault_on_the_way_costs_nothing_but_time(tmp_path: Path, api: str) -> None:
    place = workplace_in(tmp_path)
    with serving(faults=EVERY_FAULT * 2) as server:
        printed = place.run("quickstart", *SMALL, *words_for(api, server))
    found = books(place, server, api, tracked(place))
    assert len(server.calls) == len(server.billed) + 2 * len(EVERY_FAULT)
    assert_nothing_paid_twice(place, server)
    assert found.billed == found.ledger == found.journal > 0
    assert found.reports == pytest.approx(float(found.billed), abs=1e-9)
    assert {reason for reason, _, _ in place.results().draws().values()} == {"kept", "leak", "initial_test_failed"}
    assert_key_nowhere(place, printed)


def test_a_server_that_fails_by_chance_changes_no_result(tmp_path: Path) -> None:
    calm, shaken = workplace_in(tmp_path / "calm"), workplace_in(tmp_path / "shaken")
    kinds = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.RESET, Fault.TRUNCATED, Fault.EMPTY_BODY)
    for place, faults in ((calm, ()), (shaken, Chance(0.15, kinds))):
        with serving(faults=faults) as server:
            place.run("quickstart", *words_for("anthropic", server), "tracking=off")
        assert_nothing_paid_twice(place, server)
    assert len(server.calls) > len(server.billed)
    assert shaken.results().draws() == calm.results().draws()
    assert shaken.results().episodes() == calm.results().episodes()
    assert shaken.results().split() == calm.results().split()


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_empty_and_huge_answers_are_data_and_are_paid_for(tmp_path: Path, api: str) -> None:
    place = workplace_in(tmp_path)
    nonsense = [Fault.EMPTY_REPLY, Fault.HUGE_REPLY] * 2
    generator, solver = iter(nonsense), iter(nonsense)
    with serving() as server:
        server.fault_for = lambda raw: next(solver if b"<command>" in raw else generator, Fault.NONE)
        words = [*SMALL, *words_for(api, server), "tracking=off"]
        place.run("quickstart", *words)
        found = books(place, server, api, place.metrics("quickstart", *words))
    assert next(solver, None) is None
    ends = Counter(end for _, end, _ in place.results().episodes().values())
    assert ends["context_full"] == 2, "five megabytes fill any context"
    assert found.billed == found.ledger == found.journal
    assert found.reports == pytest.approx(float(found.billed), abs=1e-9)
    described = [rounds["describe"] for _, _, rounds in place.results().draws().values()]
    assert sum(described) == len(described) + len(nonsense), "what is empty or huge is asked for again"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault.OVERLOADED, ("529", "what was answered is kept")),
        (Fault.RATE_LIMIT, ("429", "lower models.generator.concurrency")),
        (Fault.HANG, ("did not answer within 1 s", "raise models.generator.timeout_seconds")),
        (Fault.HTML, ("<html>", "check that models.generator.base_url speaks the API")),
    ],
)
def test_a_provider_that_stays_dead_ends_the_run_with_what_to_do(
    tmp_path: Path, fault: Fault, words: tuple[str, ...]
) -> None:
    place = workplace_in(tmp_path)
    with serving(faults=Chance(1.0, (fault,), most=10**9)) as server:
        quick = ["models.generator.max_retries=1", "models.generator.timeout_seconds=1", "executor.infra_retries=1"]
        more = [*SMALL, *words_for("compatible", server), "tracking=off"]
        ended = place.endless("run", "quickstart", *place.sandbox, *more, *quick)
        assert ended.returncode == 1, ended.stdout
        (line,) = errors(ended.stdout)
        for word in ("models.generator", server.openai_url, *words, "run the same command again"):
            assert word in line
        assert server.billed == []


def test_a_missing_key_names_the_variable_before_anything_is_asked(tmp_path: Path) -> None:
    place = workplace_in(tmp_path, key=None)
    with serving() as server:
        ended = place.endless("run", "quickstart", *place.sandbox, *words_for("anthropic", server))
    assert ended.returncode == 2, ended.stdout
    assert "environment variable TEST_KEY" in errors(ended.stdout)[0]
    assert server.calls == []
    assert not (place.folder / "outputs").exists()


@pytest.mark.parametrize("api", APIS)
def test_a_refused_key_is_the_users_to_mend_and_is_shown_nowhere(tmp_path: Path, api: str) -> None:
    place = workplace_in(tmp_path)
    with serving() as server:
        server.key = "another"  # its 401 quotes the key it got
        ended = place.endless("run", "quickstart", *place.sandbox, *SMALL, *words_for(api, server), "tracking=off")
        assert ended.returncode == 2, ended.stdout
        (line,) = errors(ended.stdout)
        assert "TEST_KEY" in line
        assert "401" in line
        assert_key_nowhere(place, ended.stdout)


@pytest.mark.parametrize(
    ("limits", "spent"),
    [(("budget.calls=7", "budget.calls=20"), 20), (("budget.dollars=0.008", "budget.dollars=0.015"), None)],
)
def test_a_budget_stops_hard_and_raising_it_pays_nothing_twice(
    tmp_path: Path, limits: tuple[str, ...], spent: int | None
) -> None:
    place = workplace_in(tmp_path)
    with serving() as server:
        words = [*SMALL, *words_for("compatible", server), "tracking=off", "generate.max_tokens=2048"]
        for limit in limits:
            ended = place.endless("run", "quickstart", *place.sandbox, *words, limit)
            assert ended.returncode == 1, ended.stdout
            key = limit.partition("=")[0]
            assert f"raise {key} and run again" in errors(ended.stdout)[0]
        if spent is not None:
            assert len(server.billed) == spent
        else:
            dollars = sum(charged(PRICES["compatible"][1], bill) for bill in server.billed)
            assert 0 < dollars <= Decimal(limits[-1].partition("=")[2])
        place.run("quickstart", *words)
    assert_nothing_paid_twice(place, server)
    assert len(server.calls) == len(server.billed)


def test_a_recorded_live_run_replays_offline_with_the_same_tasks_and_episodes(
    tmp_path: Path, local_words: tuple[str, ...]
) -> None:
    live = Workplace(tmp_path / "live", local_words, {"TEST_KEY": KEY})
    again = Workplace(tmp_path / "again", local_words)
    recording = tmp_path / "recording"
    with serving(faults=Chance(0.1), spread=True) as server:
        words = words_for("anthropic", server)
        live.run("quickstart", *SMALL, *words, f"record={recording}", "tracking=off")
    replay = [f"models.{role}.replay={recording}" for role in ("generator", "solver")]
    again.run("quickstart", *SMALL, *replay, "tracking=off")
    assert again.results().draws() == live.results().draws()
    assert again.results().episodes() == live.results().episodes()
    assert again.results().split() == live.results().split()
    assert {path.suffix for path in recording.iterdir()} == {".yaml"}
    assert_key_nowhere(replace(live, folder=tmp_path), "")


def errors(printed: str) -> list[str]:
    """The error lines, each one line."""
    return [line for line in printed.splitlines() if line.startswith("error: ")]
