"""A half-done job is put in order before Harbor goes on with it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account

from runner.domain.errors import RecipeError
from runner.evaluation.harbor.request import HarborRun
from runner.evaluation.harbor.resume import prepare
from runner.schema import Model, Provider
from runner.schema_evaluation import Harness, TerminalBench

MODEL = Model(provider=Provider.openai, name="m", base_url="http://127.0.0.1:1/v1")


def asked(folder: Path, **bench: Any) -> HarborRun:
    bench = TerminalBench(**bench)
    return HarborRun(bench=bench, harness=Harness(), model=MODEL, folder=folder, account=account(folder))


def half_done(folder: Path) -> Path:
    """A job's folder as a killed Harbor leaves it, reduced to what is read."""
    begin = prepare(asked(folder))
    assert begin[0] == "run"
    job = folder / "harbor"
    job.mkdir()
    config = json.loads((folder / "job.json").read_text())
    (job / "config.json").write_text(json.dumps({**config, "retry": {"max_retries": 2, "min_wait_sec": 1.0}}))
    (job / "lock.json").write_text(json.dumps({"n_concurrent_trials": 4, "retry": config["retry"], "trials": []}))
    for name, row in {
        "good__1": {"verifier_result": {"rewards": {"reward": 0.0}}},
        "bad__1": {"exception_info": {"exception_type": "RuntimeError", "exception_message": "compose"}},
    }.items():
        (job / name).mkdir()
        (job / name / "result.json").write_text(json.dumps({"task_name": name[:-3], **row}))
    (job / "torn__1").mkdir()
    (job / "torn__1" / "result.json").write_text('{"task_name": "to')
    return job


def test_trials_without_a_score_are_done_again_and_all_others_are_kept(tmp_path: Path) -> None:
    job = half_done(tmp_path)
    (job / "result.json").write_text('{"n_total')
    assert prepare(asked(tmp_path)) == ["job", "resume", "--job-path", str(job)]
    assert sorted(path.name for path in job.iterdir()) == ["config.json", "good__1", "lock.json"]


def test_the_concurrency_may_change(tmp_path: Path) -> None:
    job = half_done(tmp_path)
    prepare(replace(asked(tmp_path, concurrency=1), retries=7))
    for name in ("config.json", "lock.json"):
        theirs = json.loads((job / name).read_text())
        assert theirs["n_concurrent_trials"] == 1
        assert theirs["retry"]["max_retries"] == 7
    assert json.loads((job / "config.json").read_text())["retry"]["min_wait_sec"] == 1.0


def test_another_job_is_not_gone_on_with(tmp_path: Path) -> None:
    job = half_done(tmp_path)
    with pytest.raises(RecipeError, match="begun with other settings"):
        prepare(asked(tmp_path, attempts=9))
    assert (job / "good__1").is_dir()


def test_a_server_may_have_another_address_by_now(tmp_path: Path) -> None:
    half_done(tmp_path)
    prepare(replace(asked(tmp_path), model=replace(MODEL, base_url="http://127.0.0.1:2/v1")))
    assert json.loads((tmp_path / "agent.json").read_text())["model"]["base_url"] == "http://127.0.0.1:2/v1"


def test_a_job_that_never_began_is_begun_anew(tmp_path: Path) -> None:
    prepare(asked(tmp_path))
    (tmp_path / "harbor" / "left").mkdir(parents=True)
    assert prepare(asked(tmp_path, attempts=9))[0] == "run"
    assert not (tmp_path / "harbor").exists()
