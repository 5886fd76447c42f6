"""Recordings: what is written is read back, in any text, and what is missing is explained."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from support.models import ask

from runner.domain.errors import RecipeError, ReplayMiss, StorageError
from runner.llm.base import Completion, Finish, Request, Usage
from runner.llm.journal import Journal
from runner.llm.recorder import Recorder, RecordingClient, export_recording
from runner.llm.recording import Reply, read_file, write_file
from runner.llm.replay import ReplayClient

RECIPES = Path(__file__).parents[2] / "recipes"


class Echo:
    """Answers with its slot, and a prefix that may change."""

    prefix = "reply to"

    def complete(self, request: Request) -> Completion:
        usage = Usage(input_tokens=3, output_tokens=2)
        return Completion(text=f"{self.prefix} {request.slot}\n", usage=usage, finish=Finish.LENGTH)

    def close(self) -> None:
        return


def record(folder: Path, *slots: str, client: Echo | None = None) -> None:
    with Recorder(folder) as recorder:
        recording = RecordingClient(client or Echo(), recorder)
        for slot in slots:
            recording.complete(ask(slot=slot))


@given(st.text())
@example("")
@example("\n")
@example("\n\n\n")
@example(" leading\n  and deeper\n")
@example("\n  first line empty")
@example("trailing spaces  \n   \nend  ")
@example("\ttab\n\t\ttabs")
@example("carriage\r\nreturn")
@example("next\x85line\u2028separator\ufeff")
@example("--- \n... \n# not a comment: - {a}")
@example("<command>echo '\x1b[1mbold\x1b[0m'</command>\n\n")
def test_any_reply_survives_the_recording(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("r") / "000000.yaml"
    replies = {
        slot: Reply(slot=slot, text=text, usage=Usage(input_tokens=1), finish=Finish.LENGTH)
        for slot in ("solve/000000/0/0", "solve/000000/0/1")
    }
    write_file(path, replies)
    assert read_file(path) == replies
    assert [item["reply"] for item in yaml.safe_load(path.read_text(encoding="utf-8"))] == [text, text]


def test_ordinary_replies_are_block_literals_that_people_can_read(tmp_path: Path) -> None:
    text = "<think>Ünïcode, a\ttab.</think>\n<command>ls -l\n\n  pwd</command>"
    write_file(tmp_path / "a.yaml", {"solve/000001/0/0": Reply(slot="solve/000001/0/0", text=text, usage=Usage())})
    assert (tmp_path / "a.yaml").read_text() == (
        "- slot: solve/000001/0/0\n"
        "  reply: |-\n"
        "    <think>Ünïcode, a\ttab.</think>\n"
        "    <command>ls -l\n"
        "\n"
        "      pwd</command>\n"
        "  usage: {input_tokens: 0, output_tokens: 0, cached_tokens: 0}\n"
        "  finish: stop\n"
    )


def test_a_run_that_records_can_be_replayed(tmp_path: Path) -> None:
    slots = ["describe/000003/0", "solve/000003/10/0", "solve/000003/2/0", "environment/000003/0", "final/000012/0"]
    record(tmp_path, *slots)
    client = ReplayClient(tmp_path)
    for slot in slots:
        done = client.complete(ask(slot=slot))
        assert (done.text, done.finish, done.replayed) == (f"reply to {slot}\n", Finish.LENGTH, True)
        assert done.usage == Usage(input_tokens=3, output_tokens=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000003.yaml", "000012.yaml"]
    found = [item["slot"] for item in yaml.safe_load((tmp_path / "000003.yaml").read_text())]
    assert found == ["describe/000003/0", "environment/000003/0", "solve/000003/2/0", "solve/000003/10/0"]


def test_the_order_of_the_calls_does_not_change_the_files(tmp_path: Path) -> None:
    slots = [f"solve/00000{draw}/{sample}/0" for draw in range(3) for sample in range(12)]
    record(tmp_path / "a", *slots)
    record(tmp_path / "b", *reversed(slots))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_recording_grows_over_attempts_and_the_newest_reply_wins(tmp_path: Path) -> None:
    record(tmp_path, "solve/000001/0/0", "solve/000001/1/0")
    other = Echo()
    other.prefix = "a better reply to"
    record(tmp_path, "solve/000001/1/0", "solve/000001/2/0", client=other)
    texts = {slot: reply.text for slot, reply in read_file(tmp_path / "000001.yaml").items()}
    assert [text.split(" to ")[0] for text in texts.values()] == ["reply", "a better reply", "a better reply"]


def test_a_recording_survives_a_kill(tmp_path: Path) -> None:
    killed = RecordingClient(Echo(), Recorder(tmp_path))
    killed.complete(ask(slot="solve/000001/0/0"))
    assert not (tmp_path / "000001.yaml").exists()
    record(tmp_path, "solve/000001/1/0")
    assert set(read_file(tmp_path / "000001.yaml")) == {"solve/000001/0/0", "solve/000001/1/0"}
    assert not (tmp_path / ".pending").exists()


def test_roles_may_record_at_once(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        clients = [RecordingClient(Echo(), recorder) for _ in range(2)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: clients[i % 2].complete(ask(slot=f"solve/000001/{i}/0")), range(64)))
    assert len(read_file(tmp_path / "000001.yaml")) == 64


def test_a_folder_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot (read|write) .*000001\.jsonl"):
        record(tmp_path / "file" / "folder", "solve/000001/0/0")


def test_a_journal_can_be_replayed_and_exported(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for slot in ("describe/000001/0", "solve/000001/0/0"):
        journal.record(ask(slot=slot), "id", Completion(text=slot))
    client = ReplayClient(tmp_path / "journal")
    assert client.complete(ask(slot="describe/000001/0")).text == "describe/000001/0"
    assert export_recording(tmp_path / "journal", tmp_path / "yaml")[0] == tmp_path / "yaml" / "000001.yaml"
    assert ReplayClient(tmp_path / "yaml").complete(ask(slot="solve/000001/0/0")).text == "solve/000001/0/0"


def test_a_hand_written_recording_needs_no_usage(tmp_path: Path) -> None:
    (tmp_path / "000001.yaml").write_text("# a comment\n- slot: solve/000001/0/0\n  reply: |\n    " + "x" * 40 + "\n")
    done = ReplayClient(tmp_path).complete(ask(slot="solve/000001/0/0"))
    assert done.finish is Finish.STOP
    assert done.usage.output_tokens == 10
    assert done.usage.input_tokens > 0


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        ("solve/000007/0/0", ["it holds draws 0-2, 5;"]),
        ("solve/000001/8/0", ["draw 000001 has 2 recorded samples (filter.n at most 2)"]),
        ("solve/000001/1/3", ["sample 1 has 2 recorded turns, the last solve/000001/1/1"]),
        ("describe/000001/1", ["1 recorded describe replies, the last describe/000001/0"]),
        ("final/000001/0", ["nothing of stage 'final'"]),
    ],
)
def test_a_miss_says_what_the_recording_holds_and_what_to_do(tmp_path: Path, slot: str, words: list[str]) -> None:
    slots = [f"describe/00000{draw}/0" for draw in (0, 1, 2, 5)]
    record(tmp_path, *slots, "solve/000001/0/0", "solve/000001/1/0", "solve/000001/1/1")
    with pytest.raises(ReplayMiss) as caught:
        ReplayClient(tmp_path).complete(ask(slot=slot))
    for word in [f"no recorded reply for {slot}", str(tmp_path), "model=claude", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- slot: [", "not valid YAML"),
        ("- reply: x", "no recorded reply"),
        ("- text", "no recorded reply"),
        ("- {slot: a, reply: 5}", "must be text"),
        ("- {slot: a, reply: x, finish: never}", "no recorded reply"),
        ("- {slot: a, reply: x, usage: {tokens: 1}}", "no recorded reply"),
    ],
)
def test_a_broken_recording_is_a_recipe_error_naming_the_file(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "000003.yaml").write_text(text)
    with pytest.raises(RecipeError, match=words) as caught:
        ReplayClient(tmp_path).complete(ask())
    assert "000003.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_without_recordings_is_a_recipe_error(tmp_path: Path) -> None:
    for folder, words in ((tmp_path / "none", "is no folder"), (tmp_path, "holds no recordings")):
        with pytest.raises(RecipeError, match=words):
            ReplayClient(folder, role="solver")


def test_the_shipped_recordings_can_be_read() -> None:
    files = sorted(RECIPES.glob("recordings/*/*.yaml"))
    assert files
    for path in files:
        assert all(slot.split("/")[1] == path.stem for slot in read_file(path))
