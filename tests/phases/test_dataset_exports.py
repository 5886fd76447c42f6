"""The split is the paper's rule; each export is what its reader expects, and nothing hidden slips into it."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.errors import UserError
from runner.domain.task import Environment, Task
from runner.llm.base import Message
from runner.phases.dataset.export import Options, export
from runner.phases.dataset.harbor import export_harbor, folder_name
from runner.phases.dataset.hf import export_hf
from runner.phases.dataset.openrlhf import export_openrlhf
from runner.phases.dataset.split import estimate_tokens, split, too_long
from runner.store.tasks import iter_tasks, read_task

BASE = "ARG BASE=ubuntu:22.04\nFROM ${BASE}\nRUN useradd --create-home --uid 1000 user\n"


def task(task_id: str = "task-000001", *, start: str = "", instruction: str = "Count the lines.") -> Task:
    return Task(
        id=task_id,
        instruction=instruction,
        environment=Environment(setup="echo 1 > /home/user/in\n", start=start),
        final_test="def test_done():\n    assert open('/home/user/out').read() == '42'\n",
        initial_test="def test_there():\n    open('/home/user/in')\n",
        truth="the answer is 42",
        solution="printf 42 > /home/user/out\n",
        labels={"category": "log analysis"},
        draw=1,
        metadata={"pass_rate": 0.5},
    )


def render(item: Task) -> list[Message]:
    return [Message(role="system", content="be good"), Message(role="user", content=item.instruction)]


OPTIONS = Options(render=render, base_dockerfile=BASE)


class TestSplit:
    @given(
        ids=st.sets(st.text(max_size=4), max_size=60),
        dev=st.integers(min_value=0, max_value=100),
        share=st.floats(min_value=0, max_value=1),
        seed=st.integers(min_value=0, max_value=9),
    )
    def test_every_task_is_on_one_side_and_the_caps_hold(
        self, ids: set[str], dev: int, share: float, seed: int
    ) -> None:
        train, held_out = split(ids, dev_tasks=dev, max_dev_share=share, seed=seed)
        assert sorted(train + held_out) == sorted(ids)
        assert len(held_out) <= min(dev, len(ids) * share + 1e-6)

    def test_the_order_of_the_ids_does_not_matter(self) -> None:
        ids = [f"task-{i:03}" for i in range(300)]
        forward = split(ids, dev_tasks=100, max_dev_share=0.5, seed=42)
        assert forward == split(reversed(ids), dev_tasks=100, max_dev_share=0.5, seed=42)
        assert len(forward[1]) == 100
        assert forward != split(ids, dev_tasks=100, max_dev_share=0.5, seed=43)

    def test_a_share_is_exact_where_binary_floats_are_not(self) -> None:
        assert len(split(map(str, range(100)), dev_tasks=100, max_dev_share=0.29, seed=0)[1]) == 29

    def test_prompts_over_the_limit_are_named(self) -> None:
        prompts = [("a", "x" * 40), ("b", "x" * 41), ("c", "")]
        assert too_long(prompts, max_tokens=10) == ["b"]
        assert too_long(prompts, max_tokens=40, count_tokens=len) == ["b"]
        assert estimate_tokens("") == 0


class TestOpenRlhf:
    def test_a_line_is_chat_messages_and_the_task_id(self, tmp_path: Path) -> None:
        path = tmp_path / "new" / "train.jsonl"
        assert export_openrlhf([task(), task("b", instruction="two\nlines é")], path, render) == 2
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert rows[0] == {
            "input": [{"role": "system", "content": "be good"}, {"role": "user", "content": "Count the lines."}],
            "label": "task-000001",
            "datasource": "endless",
            "labels": {"category": "log analysis"},
        }
        assert rows[1]["input"][1]["content"] == "two\nlines é"

    def test_nothing_hidden_is_in_it(self, tmp_path: Path) -> None:
        export_openrlhf([task()], tmp_path / "p.jsonl", render)
        text = (tmp_path / "p.jsonl").read_text()
        assert "42" not in text
        assert "test_done" not in text

    def test_a_failure_in_the_middle_leaves_the_earlier_file(self, tmp_path: Path) -> None:
        path = tmp_path / "p.jsonl"
        export_openrlhf([task()], path, render)
        before = path.read_bytes()

        def broken(item: Task) -> list[Message]:
            raise UserError("no prompt")

        with pytest.raises(UserError):
            export_openrlhf([task()], path, broken)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]


class TestHuggingFace:
    def test_a_split_is_a_parquet_file_and_the_card_names_it(self, tmp_path: Path) -> None:
        counts = export_hf({"train": [task("a"), task("b")], "dev": []}, tmp_path)
        assert counts == {"train": 2, "dev": 0}
        table = pq.read_table(tmp_path / "data/train-00000-of-00001.parquet")
        assert table["id"].to_pylist() == ["a", "b"]
        assert json.loads(table["labels"][0].as_py()) == {"category": "log analysis"}
        assert table["verifier_seconds"][0].as_py() == 60.0
        assert pq.read_table(tmp_path / "data/dev-00000-of-00001.parquet").num_rows == 0
        card = (tmp_path / "README.md").read_text()
        assert "path: data/train-*.parquet" in card
        assert "| category | log analysis | 2 |" in card

    def test_the_truth_is_in_it_only_when_asked_for(self, tmp_path: Path) -> None:
        export_hf({"train": [task()]}, tmp_path / "open")
        export_hf({"train": [task()]}, tmp_path / "full", truth=True)
        file = "data/train-00000-of-00001.parquet"
        assert "truth" not in pq.read_table(tmp_path / "open" / file).column_names
        assert pq.read_table(tmp_path / "full" / file)["truth"].to_pylist() == ["the answer is 42"]
        assert "hidden ground truth is not part" in (tmp_path / "open/README.md").read_text()

    def test_lone_surrogates_do_not_stop_an_export(self, tmp_path: Path) -> None:
        odd = task(instruction="bad \ud800")
        assert export_hf({"train": [odd]}, tmp_path / "hf") == {"train": 1}
        assert export_openrlhf([odd], tmp_path / "p.jsonl", render) == 1


class TestHarbor:
    def test_the_folder_reads_back_as_the_same_task(self, tmp_path: Path) -> None:
        assert export_harbor([task(start="sleep 99 &\n")], tmp_path, base_dockerfile=BASE) == 1
        assert read_task(tmp_path / "task-000001") == task(start="sleep 99 &\n")

    def test_the_build_context_is_self_contained_and_holds_nothing_hidden(self, tmp_path: Path) -> None:
        export_harbor([task()], tmp_path, base_dockerfile=BASE)
        context = tmp_path / "task-000001/environment"
        assert sorted(path.name for path in context.iterdir()) == ["Dockerfile", "setup.sh"]
        assert not any("42" in path.read_text().replace(":22.04", "") for path in context.iterdir())
        text = (context / "Dockerfile").read_text()
        assert text.startswith(BASE)
        assert "ENTRYPOINT" not in text

    def test_the_verifier_needs_no_network(self, tmp_path: Path) -> None:
        export_harbor([task()], tmp_path, base_dockerfile=BASE)
        script = (tmp_path / "task-000001/tests/test.sh").read_text()
        assert not any(word in script for word in ("curl", "apt", "pip ", "uv", "http"))

    def test_an_imported_verifier_script_stays_as_it_is_with_its_data(self, tmp_path: Path) -> None:
        script = replace(task(), final_test="", verifier_script="#!/bin/sh\n", test_files={"want.txt": b"42"})
        export_harbor([script], tmp_path, base_dockerfile=BASE)
        tests = tmp_path / "task-000001/tests"
        assert sorted(path.name for path in tests.iterdir()) == ["test.sh", "test_initial_state.py", "want.txt"]
        assert (tests / "test.sh").read_text() == "#!/bin/sh\n"
        assert read_task(tmp_path / "task-000001") == script

    @pytest.mark.parametrize("task_id", ["", ".", "../up", "a/b", ".hidden"])
    def test_an_id_that_cannot_be_a_folder_is_refused(self, task_id: str) -> None:
        with pytest.raises(UserError, match="cannot be a folder's name"):
            folder_name(task_id)


class TestExport:
    def test_splits_become_folders_or_files(self, tmp_path: Path) -> None:
        splits = {"train": [task("a")], "dev": [task("b")]}
        assert export(splits, "harbor", tmp_path / "h", OPTIONS) == {"train": 1, "dev": 1}
        assert export(splits, "openrlhf", tmp_path / "o", OPTIONS) == {"train": 1, "dev": 1}
        assert [item.id for item in iter_tasks(tmp_path / "h/dev")] == ["b"]
        assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["dev.jsonl", "train.jsonl"]

    def test_a_set_without_splits_is_written_plainly(self, tmp_path: Path) -> None:
        export({"": [task()]}, "harbor", tmp_path / "h", OPTIONS)
        export({"": [task()]}, "openrlhf", tmp_path / "o", OPTIONS)
        export({"": [task()]}, "hf", tmp_path / "f", OPTIONS)
        assert (tmp_path / "h/task-000001/task.toml").is_file()
        assert (tmp_path / "o/train.jsonl").is_file()
        assert (tmp_path / "f/data/train-00000-of-00001.parquet").is_file()

    def test_an_unknown_format_names_the_valid_ones(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"no export format 'habor': did you mean 'harbor'\? There are harbor, o"):
            export({}, "habor", tmp_path, OPTIONS)
