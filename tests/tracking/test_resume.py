"""Runs go on where they were: resumed, repeated, moved to another store, or part of a sweep."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.reports import filter_report, generate_report, run_info
from support.stores import PARENT, Store, publish_all, text_of, tracker

from runner.tracking.address import default_uri
from runner.tracking.mlflow.tracker import MlflowTracker

pytestmark = pytest.mark.usefixtures("quiet")


def _contents(store: Store) -> Any:
    """All that publishing could change, end times apart."""
    runs = [(run.info.run_id, run.data.metrics, run.data.params, run.inputs.dataset_inputs) for run in store.runs()]
    history = [store.client.get_metric_history(run.info.run_id, "generate/kept") for run in store.runs()]
    traces = [(t.info.trace_id, len(t.data.spans), len(t.info.assessments)) for t in store.traces()]
    return [repr(x) for x in runs], [len(points) for points in history], sorted(traces)


def test_a_resumed_run_continues_its_own_run(outputs: Path) -> None:
    run = run_info(outputs / "run")
    first = tracker(outputs)
    first.begin(run)
    first.publish(generate_report(outputs / "g"))
    first.end("stopped")
    [parent] = Store(default_uri(outputs)).parents()
    assert parent.info.status == "KILLED"
    publish_all(tracker(outputs), run, generate_report(outputs / "g"), filter_report(outputs / "f"))
    [parent] = Store(default_uri(outputs)).parents()
    assert parent.info.status == "FINISHED"
    assert set(Store(default_uri(outputs)).children(parent)) == {"generate", "filter"}
    assert "- **generate**: draws **12**" in parent.data.tags["mlflow.note.content"]


def test_publishing_again_changes_nothing_and_does_not_even_load_mlflow(
    outputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, reports = run_info(outputs / "run"), (generate_report(outputs / "g"), filter_report(outputs / "f"))
    publish_all(tracker(outputs), run, *reports)
    before = _contents(Store(default_uri(outputs)))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)  # importing it now fails, and would warn
        publish_all(tracker(outputs), run, *reports)
    assert _contents(Store(default_uri(outputs))) == before


def test_a_lost_memory_is_found_again_by_the_key(outputs: Path) -> None:
    run, reports = run_info(outputs / "run"), (generate_report(outputs / "g"), filter_report(outputs / "f"))
    publish_all(tracker(outputs), run, *reports)
    before = _contents(Store(default_uri(outputs)))
    (run.folder / "tracking.json").write_text("{spoilt")
    publish_all(tracker(outputs), run, *reports)
    assert _contents(Store(default_uri(outputs))) == before


def test_a_publication_cut_short_is_completed_without_doubling(outputs: Path) -> None:
    run, report = run_info(outputs / "run"), filter_report(outputs / "f")
    publish_all(tracker(outputs), run, generate_report(outputs / "g"), report)
    memory = run.folder / "tracking.json"
    memory.write_text(memory.read_text().replace('"published": true', '"published": false'))
    publish_all(tracker(outputs), run, generate_report(outputs / "g"), report)
    store = Store(default_uri(outputs))
    [parent] = store.parents()
    assert set(store.children(parent)) == {"generate", "filter"}
    assert len(store.traces()) == 3
    assert [len(t.info.assessments) for t in store.traces()].count(1) == 2
    child = store.children(parent)["generate"]
    assert len(json.loads(text_of(store, child, "attrition.json", outputs / "down"))["data"]) == 2


@pytest.mark.parametrize("loss", ["file", "deleted"])
def test_a_store_that_lost_the_run_gets_it_again(outputs: Path, loss: str) -> None:
    run, report = run_info(outputs / "run"), generate_report(outputs / "g")
    publish_all(tracker(outputs), run, report)
    if loss == "file":
        (outputs / "elsewhere").mkdir()
        uri = default_uri(outputs / "elsewhere")
        memory = run.folder / "tracking.json"
        memory.write_text(memory.read_text().replace(default_uri(outputs), uri))
    else:
        uri = default_uri(outputs)
        store = Store(uri)
        store.client.delete_run(store.parents()[0].info.run_id)
    publish_all(tracker(outputs, uri), run, report)
    [parent] = [p for p in Store(uri).parents() if p.info.run_name == run.name]
    assert set(Store(uri).children(parent)) == {"generate"}


def test_another_address_gets_everything_and_the_first_keeps_its_own(outputs: Path, server: str) -> None:
    run = run_info(outputs / "run", experiment="moved")
    reports = generate_report(outputs / "g"), filter_report(outputs / "f")
    publish_all(tracker(outputs), run, *reports)
    publish_all(tracker(outputs, server), run, *reports)
    there = Store(server, "moved")
    [parent] = there.parents()
    assert set(there.children(parent)) == {"generate", "filter"}
    assert len(there.traces()) == 3
    publish_all(tracker(outputs), run, *reports)
    assert len(Store(default_uri(outputs), "moved").parents()) == 1


def test_a_new_fingerprint_of_a_phase_is_a_new_child_run(outputs: Path) -> None:
    run, report = run_info(outputs / "run"), generate_report(outputs / "g")
    publish_all(tracker(outputs), run, report)
    changed = dataclasses.replace(report, fingerprint="c3" * 32, metrics={"generate/kept": 9.0})
    publish_all(tracker(outputs), run, changed)
    store = Store(default_uri(outputs))
    [parent] = store.parents()
    assert parent.data.metrics["generate/kept"] == 9.0
    assert len([r for r in store.runs() if r.info.run_name == "generate"]) == 2


def test_variants_of_a_sweep_are_siblings_under_one_run(outputs: Path) -> None:
    for number, dropped in enumerate(["none", "category", "complexity"]):
        run = run_info(outputs / dropped, key=f"key{number}", name=f"without {dropped}", sweep="ablation/taxonomy")
        publish_all(tracker(outputs), run, generate_report(outputs / "g"))
    store = Store(default_uri(outputs))
    [sweep] = store.parents()
    assert (sweep.info.run_name, sweep.info.status) == ("ablation/taxonomy", "FINISHED")
    variants = store.children(sweep)
    assert set(variants) == {"without none", "without category", "without complexity"}
    assert len({tuple(sorted(variant.data.metrics)) for variant in variants.values()}) == 1
    assert all(set(store.children(variant)) == {"generate"} for variant in variants.values())


def test_a_run_made_alone_joins_a_sweep_that_repeats_it(outputs: Path) -> None:
    run = run_info(outputs / "run")
    publish_all(tracker(outputs), run, generate_report(outputs / "g"))
    publish_all(tracker(outputs), dataclasses.replace(run, sweep="by n"), generate_report(outputs / "g"))
    store = Store(default_uri(outputs))
    [sweep] = store.parents()
    assert list(store.children(sweep)) == [run.name]


def test_progress_keeps_its_steps_rising_over_a_resume(outputs: Path) -> None:
    run, report = run_info(outputs / "run"), generate_report(outputs / "g")
    for _ in range(2):
        part = MlflowTracker(uri=default_uri(outputs))
        part.begin(run)
        part.progress("generate", {"generate/kept": 3.0}, step=5)
        part.progress("generate", {"generate/kept": 4.0}, step=6)  # too soon after the last: dropped
        part.end("stopped")
    publish_all(tracker(outputs), run, report)
    store = Store(default_uri(outputs))
    [parent] = store.parents()
    child = store.children(parent)["generate"]
    points = store.client.get_metric_history(child.info.run_id, "generate/kept")
    assert [(p.step, p.value) for p in points] == [(5, 3.0), (6, 3.0), (7, 8.0)]
    assert child.data.metrics["generate/kept"] == 8.0
    assert child.data.tags.get(PARENT) == parent.info.run_id
