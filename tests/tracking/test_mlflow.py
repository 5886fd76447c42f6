"""A run as it appears in a real store: an SQLite file, and a server on loopback."""

import json
import logging
import shutil
from pathlib import Path

import pytest
from support.reports import filter_report, generate_report, run_info
from support.stores import Store, publish_all, text_of, tracker

from runner.tracking.address import default_uri

pytestmark = pytest.mark.usefixtures("quiet")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Path:
    """An outputs folder with one finished run in its SQLite store."""
    outputs = tmp_path_factory.mktemp("outputs")
    shutil.copy(empty_store, outputs / "mlflow.db")
    reports = generate_report(outputs / "g"), filter_report(outputs / "f")
    publish_all(tracker(outputs), run_info(outputs / "run"), *reports)
    return outputs


@pytest.fixture
def store(published: Path) -> Store:
    return Store(default_uri(published))


def test_a_run_is_a_parent_with_one_child_a_phase(store: Store) -> None:
    [parent] = store.parents()
    assert parent.info.run_name == "quickstart-4f2a91c0"
    assert parent.info.status == "FINISHED"
    children = store.children(parent)
    assert set(children) == {"generate", "filter"}
    assert {child.info.status for child in children.values()} == {"FINISHED"}
    assert children["generate"].data.params["fingerprint"] == "a1" * 32


def test_the_parent_has_the_recipe_flat_and_as_a_file(store: Store, tmp_path: Path) -> None:
    [parent] = store.parents()
    params = parent.data.params
    assert params["filter.n"] == "4"
    assert params["filter.keep"] == '["pass_at_n > 0"]'
    assert params["models.solver.name"] == "o3"
    assert params["taxonomy.dimensions.category.values"].startswith("62 entries, sha256 ")
    assert "n: 4" in text_of(store, parent, "recipe.yaml", tmp_path)


def test_parent_and_child_carry_the_same_metrics_under_the_same_names(store: Store) -> None:
    [parent] = store.parents()
    children = store.children(parent)
    assert parent.data.metrics == children["generate"].data.metrics | children["filter"].data.metrics
    assert parent.data.metrics["filter/pass_at_4"] == 0.875


def test_parent_tags_and_description_tell_what_it_was(store: Store) -> None:
    [parent] = store.parents()
    tags = parent.data.tags
    assert tags["endless.key"] == "4f2a91c0"
    assert tags["endless.sandbox"] == "local"
    note = tags["mlflow.note.content"]
    assert "- **filter**: kept **7** · pass at 1 **0.531** · pass at 4 **0.875**\n" in note
    assert "  - attrition: kept 8 · leak 1\n" in note


def test_tables_load_as_mlflow_tables(store: Store, published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(published))  # load_table searches there, whatever its client
    [parent] = store.parents()
    child = store.children(parent)["generate"]
    tables = store.client.load_table(store.experiment_id, "attrition.json", [child.info.run_id])
    assert tables.to_dict("list") == {"reason": ["kept", "leak"], "draws": [8, 1]}
    assert json.loads(parent.data.tags["mlflow.loggedArtifacts"]) == [
        {"path": "generate/attrition.json", "type": "table"}
    ]


def test_datasets_are_inputs_of_parent_and_child(store: Store, published: Path) -> None:
    [parent] = store.parents()
    for run in (parent, store.children(parent)["generate"]):
        [entry] = run.inputs.dataset_inputs
        assert (entry.dataset.name, entry.dataset.digest) == ("tasks", "a1a1a1a1a1a1")
        assert json.loads(entry.dataset.source) == {"uri": str(published / "g")}
        assert [(tag.key, tag.value) for tag in entry.tags] == [("mlflow.data.context", "training")]


def test_artifacts_lie_beside_the_store_at_an_absolute_address(store: Store, published: Path) -> None:
    assert store.artifact_location == (published / "mlartifacts" / "quickstart").as_uri()
    assert list((published / "mlartifacts").rglob("draws.jsonl"))


def test_an_episode_is_a_trace_with_a_span_a_turn(store: Store) -> None:
    traces = {trace.info.tags["mlflow.traceName"]: trace for trace in store.traces()}
    assert set(traces) == {"000003/0", "000003/1", "000004/0"}
    root, *turns = traces["000003/0"].data.spans
    assert root.outputs == {"outcome": "pass", "end": "done", "verdict": "2 passed"}
    assert [turn.name for turn in turns[:1]] == ["1: $ ls /var/log/app"]
    assert turns[1].inputs == {"observation": "exit code 0\napp.log\napp.log.1"}
    assert turns[1].outputs["command"].startswith("grep -c ERROR")
    assert turns[1].attributes["exit_code"] == 0
    assert [turn.parent_id for turn in turns] == [root.span_id] * 3
    assert turns[0].end_time_ns - turns[0].start_time_ns == 1_600_000_000
    assert traces["000003/0"].info.execution_duration == 4000


def test_a_trace_carries_outcome_tokens_and_the_verifiers_word(store: Store) -> None:
    traces = {trace.info.tags["mlflow.traceName"]: trace.info for trace in store.traces()}
    assert traces["000003/0"].token_usage == {"input_tokens": 2673, "output_tokens": 88, "total_tokens": 2761}
    assert [a.value for a in traces["000003/0"].assessments] == [True]
    assert [a.value for a in traces["000003/1"].assessments] == [False]
    assert traces["000004/0"].assessments == []
    assert traces["000004/0"].state.value == "ERROR"
    assert traces["000003/1"].request_preview.startswith("000003/1: Count the ERROR lines")


def test_traces_are_found_from_the_phase_and_from_the_run(store: Store) -> None:
    [parent] = store.parents()
    for run in (parent, store.children(parent)["filter"]):
        found = store.client.search_traces(locations=[store.experiment_id], run_id=run.info.run_id)
        assert len(found) == 3


def test_everything_works_through_a_server_too(
    server: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run = run_info(tmp_path / "run", experiment="served")
    client = tracker(tmp_path, server)
    publish_all(client, run, generate_report(tmp_path / "g"), filter_report(tmp_path / "f"))
    store = Store(server, "served")
    [parent] = store.parents()
    assert parent.info.status == "FINISHED"
    assert parent.data.metrics["filter/kept"] == 7.0
    assert set(store.children(parent)) == {"generate", "filter"}
    assert len(store.traces()) == 3
    assert "n: 4" in text_of(store, parent, "recipe.yaml", tmp_path / "down")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert capfd.readouterr() == ("", "")


def test_nothing_secret_reaches_the_store(outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live-0123456789")
    report = filter_report(
        outputs / "f",
        tables={"calls": [{"error": "401: wrong key sk-live-0123456789"}]},
        tags={"why": "sk-live-0123456789"},
    )
    leaky = report.episodes[0]
    episode = type(leaky)(**{**vars(leaky), "verdict": "token sk-live-0123456789 refused"})
    report = filter_report(outputs / "f", tables=report.tables, tags=report.tags, episodes=[episode])
    publish_all(tracker(outputs), run_info(outputs / "run", tags={"note": "key sk-live-0123456789"}), report)
    kept = b"".join(file.read_bytes() for file in outputs.rglob("*") if file.is_file() and "run" not in file.parts)
    assert b"filter/pass_at_1" in kept
    for secret in (b"sk-live-0123456789", b"hf_plain_in_the_recipe", b"sk-in-an-argument", b"hunter2"):
        assert secret not in kept
