"""The machine is watched while it trains, and only then."""

import time
from pathlib import Path

import pytest
from support.reports import run_info
from support.stores import Store, make_store, tracker


def test_host_metrics_stand_beside_the_curves_of_a_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.2")
    uri = make_store(tmp_path)
    made = tracker(tmp_path, uri)
    made.begin(run_info(tmp_path))
    for step in (1, 2):
        made.curve("ppo", step, {"ppo/reward": step / 2})
        time.sleep(1.0)
    made.end("stopped")
    store = Store(uri)
    run = store.children(store.parents()[0])["ppo"]
    samples = store.client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")
    assert len(samples) >= 2
    assert len({sample.step for sample in samples}) == len(samples)
    assert [point.step for point in store.client.get_metric_history(run.info.run_id, "ppo/reward")] == [1, 2]
    time.sleep(0.6)
    assert len(store.client.get_metric_history(run.info.run_id, "system/cpu_utilization_percentage")) == len(samples)
