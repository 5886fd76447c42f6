"""What the trials of a job share inside Harbor: whose turn each takes, and a model that is left in good order."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.accounts import account
from support.loopback import Loopback
from support.models import ask

from runner.domain.errors import BudgetExceeded
from runner.evaluation.harbor.room import Room
from runner.evaluation.harbor.settings import AgentSettings
from runner.rollout.bridge import Abandoned
from runner.schema import Agent, Budget, Model, Provider
from runner.store.jsonl import read_lines


@contextlib.contextmanager
def room(folder: Path, url: str = "http://127.0.0.1:1", **keys: object) -> Iterator[Room]:
    model = Model(provider=Provider.openai, name="m", base_url=f"{url}/v1")
    settings = AgentSettings(agent=Agent(), model=model, account=account(folder, **keys))
    with contextlib.closing(Room(settings, folder)) as made:
        yield made


def begin(folder: Path, *trials: str) -> None:
    for trial in trials:
        (folder / "harbor" / trial).mkdir(parents=True)


def place(room: Room, trial: str, instruction: str = "Do it.") -> int:
    return int(room.slot(trial, instruction).rpartition("/")[2])


def test_a_trial_takes_the_place_of_one_that_was_removed(tmp_path: Path) -> None:
    begin(tmp_path, "a__1", "a__2", "a__3", "a__4", "b__1")
    with room(tmp_path) as first:
        assert [place(first, f"a__{n}") for n in (1, 2, 3)] == [0, 1, 2]
        assert place(first, "a__2") == 1, "a retried trial keeps its name and its place"
        assert place(first, "b__1", "Do another thing.") == 0
    (tmp_path / "harbor" / "a__2").rmdir()
    with room(tmp_path) as second:
        assert [place(second, trial) for trial in ("a__4", "a__3", "a__1")] == [1, 2, 0]
        begin(tmp_path, "a__5")
        assert place(second, "a__5") == 3


def test_all_trials_share_a_budget_and_a_ledger(tmp_path: Path) -> None:
    begin(tmp_path, "a__1", "a__2")
    with Loopback() as server, room(tmp_path, server.url, budget=Budget(calls=2)) as made:
        slots = [made.slot(trial, "Do it.") for trial in ("a__1", "a__2")]
        for slot in slots:
            made.client.complete(ask(f"{slot}/0"))
        made.client.complete(ask(f"{slots[0]}/0"))
        with pytest.raises(BudgetExceeded, match="all 2 calls"):
            made.client.complete(ask(f"{slots[0]}/1"))
        assert len(server.calls) == 2
    assert [row["slot"] for row in read_lines(tmp_path / "ledger.jsonl")] == [f"{slot}/0" for slot in slots]


def test_an_awaited_answer_is_kept_before_the_room_is_closed(tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def reply(call: object) -> str:
        asked.set()
        go_on.wait(10)
        return "late"

    with Loopback(reply=reply) as server:
        with room(tmp_path, server.url) as made:
            waiting = threading.Thread(target=lambda: made.client.complete(ask("harbor/a/0/0")))
            waiting.start()
            assert asked.wait(10)
            threading.Timer(0.5, go_on.set).start()
        with pytest.raises(Abandoned):
            made.client.complete(ask("harbor/a/0/1"))
        waiting.join()
        assert len(server.calls) == 1
    (row,) = read_lines(next((tmp_path / "journal").rglob("*.jsonl")))
    assert "late" in str(row)
