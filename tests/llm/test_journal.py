"""The journal: what is answered is found again, whatever killed the run."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disk import no_file_larger_than
from support.models import ask

from runner import schema
from runner.domain.errors import ProviderError, ReplayMiss, StorageError
from runner.llm import journal as module
from runner.llm.base import Completion, Finish, Message, Request, Usage
from runner.llm.identity import identity
from runner.llm.journal import Journal, entries, shard_path
from runner.llm.journaled import JournaledClient

MODEL = schema.Model(provider=schema.Provider.openai, name="tiny")
ANSWER = Completion(
    text="<command>ls</command>\n\u00e9\U0001f600",
    usage=Usage(input_tokens=5, output_tokens=3, cached_tokens=1),
    finish=Finish.LENGTH,
    model="tiny-1",
    seconds=1.25,
    cost=Decimal("0.0000125"),
)


class Counting:
    """A client that counts, answers with the number of the call, and fails on request."""

    def __init__(self, *, fail: int = 0) -> None:
        self.calls = 0
        self.closed = 0
        self._fail = fail
        self._lock = threading.Lock()

    def complete(self, request: Request) -> Completion:
        with self._lock:
            self.calls += 1
            number = self.calls
        if number <= self._fail:
            raise ProviderError("down")
        return Completion(text=f"{request.slot} #{number}")

    def close(self) -> None:
        self.closed += 1


def test_a_recorded_answer_comes_back_whole_and_marked_as_replayed(tmp_path: Path) -> None:
    Journal(tmp_path).record(ask(), "id", ANSWER)
    assert Journal(tmp_path).lookup(ask(), "id") == replace(ANSWER, replayed=True)


def test_another_slot_or_identity_is_a_miss(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.record(ask(), "id", ANSWER)
    assert journal.lookup(ask(slot="solve/000003/0/1"), "id") is None
    assert journal.lookup(ask(slot="solve/000004/0/0"), "id") is None
    assert journal.lookup(ask(), "other") is None


def test_another_conversation_in_the_same_slot_is_a_hit_that_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    first = ask()
    turn = (Message(role="assistant", content="date"), Message(role="user", content="Mon"))
    then = replace(first, messages=first.messages + turn)
    journal.record(then, "id", ANSWER)
    hit = journal.lookup(replace(then, messages=(*then.messages[:-1], Message(role="user", content="Tue"))), "id")
    assert hit is not None
    assert hit.text == ANSWER.text
    assert hit.drift == "Mon"


def test_what_an_answer_depends_on_is_in_its_identity() -> None:
    base = identity(MODEL, ask())
    assert identity(MODEL, ask()) == base
    assert identity(replace(MODEL, base_url="http://x"), ask()) == base, "a server may move"
    turn = (Message(role="assistant", content="a"), Message(role="user", content="b"))
    later = replace(ask(), messages=ask().messages + turn)
    assert identity(MODEL, later) == identity(MODEL, replace(later, messages=later.messages[:-1], max_tokens=9))
    others = [
        identity(replace(MODEL, name="big"), ask()),
        identity(replace(MODEL, provider=schema.Provider.vllm), ask()),
        identity(replace(MODEL, reasoning=True), ask()),
        identity(replace(MODEL, temperature=0.1), ask()),
        identity(replace(MODEL, extra_body={"a": 1}), ask()),
        identity(MODEL, ask(temperature=0.5)),
        identity(MODEL, ask(max_tokens=65)),
        identity(MODEL, ask(scope="task 1")),
        identity(MODEL, ask(last="other")),
    ]
    assert len({base, *others}) == 10
    same = [
        replace(MODEL, concurrency=3),
        replace(MODEL, api_key_env="X"),
        replace(MODEL, max_retries=1),
        replace(MODEL, timeout_seconds=5),
    ]
    assert {identity(model, ask()) for model in same} == {base}


def test_a_temperature_that_is_never_sent_is_not_in_the_identity() -> None:
    claude = replace(MODEL, provider=schema.Provider.anthropic)
    assert identity(claude, ask(temperature=0.5)) == identity(claude, ask())


@pytest.mark.parametrize("cut", [1, 20, -2, -1])
def test_a_torn_last_line_is_dropped_and_the_file_healed(tmp_path: Path, cut: int) -> None:
    journal = Journal(tmp_path)
    journal.record(ask(), "id", ANSWER)
    path = shard_path(tmp_path, ask().slot)
    whole = path.read_bytes()
    path.write_bytes(whole + whole.replace(b'"id"', b'"torn"')[:cut])
    again = Journal(tmp_path)
    complete_but_for_the_newline = cut == -1
    assert (again.lookup(ask(), "torn") is not None) == complete_but_for_the_newline
    again.record(ask(), "after", ANSWER)
    for reader in (again, Journal(tmp_path)):
        assert reader.lookup(ask(), "id") is not None
        assert reader.lookup(ask(), "after") is not None
    assert len(list(entries(tmp_path))) == 2 + complete_but_for_the_newline


def test_lines_that_are_not_ours_are_skipped(tmp_path: Path) -> None:
    path = shard_path(tmp_path, ask().slot)
    path.parent.mkdir(parents=True)
    path.write_bytes(b'\n[]\n{}\n{"slot": 1}\n\xff\xfe\n{"slot": "a", "usage": {"x": 1}}\n')
    journal = Journal(tmp_path)
    journal.record(ask(), "id", ANSWER)
    assert journal.lookup(ask(), "id") is not None


def test_two_journals_on_one_folder_see_each_other(tmp_path: Path) -> None:
    one, two = Journal(tmp_path), Journal(tmp_path)
    assert two.lookup(ask(), "id") is None
    one.record(ask(), "id", ANSWER)
    assert two.lookup(ask(), "id") is not None


def test_few_files_are_open_at_once_and_none_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPEN_SHARDS", 2)
    journal = Journal(tmp_path)
    slots = [f"solve/{draw:06d}/0/0" for draw in range(6)]
    for slot in slots:
        journal.record(ask(slot=slot), "id", ANSWER)
        assert journal.lookup(ask(slot=slot), "id") is not None
    assert len(journal._shards) == 2
    assert all(journal.lookup(ask(slot=slot), "id") for slot in slots)
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.jsonl"))[0] == "solve/000000.jsonl"


@given(st.lists(st.text(min_size=0, max_size=300), min_size=1, max_size=4))
def test_any_slot_has_a_file_of_its_own_inside_the_folder(parts: list[str]) -> None:
    slot = "/".join(parts)
    path = shard_path(Path("root"), slot)
    assert ".." not in path.parts
    assert path.parts[0] == "root"
    assert len(path.parts) == 1 + min(2, slot.count("/") + 1)
    assert all(len(part.encode()) < 255 and "\0" not in part for part in path.parts)


@given(text=st.text(), last=st.text())
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str, last: str) -> None:
    journal = Journal(tmp_path_factory.mktemp("journal"))
    journal.record(ask(last=last), "id", Completion(text=text))
    hit = journal.lookup(ask(last=last), "id")
    assert hit is not None
    assert (hit.text, hit.drift) == (text, None)


def test_a_line_holds_the_last_message_and_no_other_part_of_the_request(tmp_path: Path) -> None:
    Journal(tmp_path).record(ask(last="the question"), "id", ANSWER)
    row = json.loads(shard_path(tmp_path, ask().slot).read_text())
    assert set(row) == {
        "slot", "identity", "hash", "reply", "usage", "finish", "model", "seconds", "cost", "last",
    }  # fmt: skip
    assert row["last"] == "the question"
    assert row["cost"] == "0.0000125"
    assert "You are a shell" not in json.dumps(row)


def test_kill_9_in_mid_write_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from support.models import ask; from runner.llm.journal import Journal\n"
        "from runner.llm.base import Completion\n"
        "journal = Journal(Path(sys.argv[1])); i = 0\n"
        "while True:\n"
        "    journal.record(ask(slot=f'solve/000001/0/{i}'), 'id', Completion(text='x' * 9999))\n"
        "    print(i, flush=True); i += 1\n"
    )
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path), tests], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(30)]
        child.kill()
        said += child.stdout.readlines()
    journal = Journal(tmp_path)
    for line in said:
        assert journal.lookup(ask(slot=f"solve/000001/0/{int(line)}"), "id") is not None


def test_a_folder_that_cannot_be_written_is_a_storage_error_naming_it(tmp_path: Path) -> None:
    (tmp_path / "solve").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"cannot write .*000003\.jsonl"):
        Journal(tmp_path).record(ask(), "id", ANSWER)


def test_a_full_disk_is_a_storage_error_and_the_answer_is_not_paid_twice(tmp_path: Path) -> None:
    inner = Counting()
    client = JournaledClient(inner, Journal(tmp_path), MODEL)
    client.complete(ask(slot="solve/000003/1/0"))
    size = shard_path(tmp_path, ask().slot).stat().st_size
    with no_file_larger_than(size + 40):
        for _ in range(2):
            with pytest.raises(StorageError, match=r"cannot write .*000003\.jsonl: .* run the same command again"):
                client.complete(ask())
    assert client.complete(ask()).text.endswith("#2")
    assert client.complete(ask()).replayed
    assert client.complete(ask(slot="solve/000003/1/0")).replayed
    assert inner.calls == 2


def test_a_client_asks_once_and_then_reads(tmp_path: Path) -> None:
    inner = Counting()
    client = JournaledClient(inner, Journal(tmp_path), MODEL)
    first, second = client.complete(ask()), client.complete(ask())
    assert (first.text, first.replayed) == (second.text, False)
    assert second.replayed
    assert (inner.calls, client.replayed, client.drifted) == (1, 1, 0)
    client.close()
    assert inner.closed == 1


def test_a_failed_call_is_not_recorded(tmp_path: Path) -> None:
    client = JournaledClient(Counting(fail=1), Journal(tmp_path), MODEL)
    with pytest.raises(ProviderError):
        client.complete(ask())
    assert client.complete(ask()).text.endswith("#2")


def test_many_threads_in_one_slot_pay_once(tmp_path: Path) -> None:
    inner = Counting()
    client = JournaledClient(inner, Journal(tmp_path), MODEL)
    with ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda i: client.complete(ask(slot=f"solve/000001/0/{i % 8}")).text, range(128)))
    assert inner.calls == 8
    assert len(set(texts)) == 8
    assert client._flights._slots == {}
    slots = [entry.slot for entry in entries(tmp_path)]
    assert sorted(slots) == sorted(set(slots))


def test_without_a_model_an_unrecorded_slot_is_a_miss(tmp_path: Path) -> None:
    with pytest.raises(ReplayMiss, match="solve/000003/0/0"):
        JournaledClient(None, Journal(tmp_path), MODEL).complete(ask())


def test_an_episode_that_runs_again_is_answered_although_its_commands_print_something_else(tmp_path: Path) -> None:
    inner = Counting()
    client = JournaledClient(inner, Journal(tmp_path), MODEL)
    turn = (Message(role="assistant", content="date"), Message(role="user", content="Mon"))
    client.complete(ask(messages=ask().messages + turn))
    other = (Message(role="assistant", content="date"), Message(role="user", content="Tue, and more to read"))
    again = client.complete(ask(messages=ask().messages + other, max_tokens=60))
    assert (again.replayed, again.drift) == (True, "Mon")
    assert (inner.calls, client.drifted) == (1, 1)
