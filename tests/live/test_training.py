"""A policy trained for real: OpenRLHF, Ray, DeepSpeed and vLLM on a CPU, rewards from real sandboxes; killed, gone on
with, served and scored."""

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.endless import Workplace
from support.leftovers import adopting, files_of
from support.real_trainer import trainer_python
from support.stores import Store

from runner.store.jsonl import read_lines
from runner.tracking.mlflow.quiet import quiet_mlflow

pytestmark = [pytest.mark.live, pytest.mark.trainer, pytest.mark.timeout(1500)]

STEPS, TASKS, SAMPLES = 2, 10, 2
FINISHED = 1
"""Steps whose checkpoints are whole before the kill."""
WORDS = (
    *("sft.epochs=6", f"ppo.epochs={STEPS}", "ppo.save_every=1", f"ppo.samples_per_prompt={SAMPLES}"),
    *("ppo.micro_batch_size=10", "eval.dev.samples=1", "eval.dev.checkpoints=false"),
)


@pytest.fixture
def place(tmp_path: Path, local_words: tuple[str, ...]) -> Iterator[Workplace]:
    """With a temporary folder of its own, whose name is short enough for sockets."""
    temporary = Path(f"/tmp/{os.getpid() % 100_000}")
    temporary.mkdir()
    yield Workplace(tmp_path / "w", local_words, {"TMPDIR": str(temporary), "ENDLESS_TRAINER": trainer_python()})
    shutil.rmtree(temporary)


def test_a_killed_training_goes_on_where_it_was_and_its_policy_is_served_and_scored(place: Workplace) -> None:
    with adopting() as family:
        first = _steps_before_a_kill(place)
        assert family.left() == [], "the trainer ends with the runner"
        with _killing_one_server() as killed:
            printed = _run(place)
        assert family.left() == []
    assert killed == ["vllm"], "a server of the evaluation was killed"
    assert "ppo: going on after" in printed
    _check_steps(place, first)
    _check_episodes(place)
    _check_tracking(place)
    _check_scores(place)
    _check_report(place)
    assert files_of(place) == []
    assert "already done" in _run(place)


def _run(place: Workplace) -> str:
    done = place.endless("run", "tiny", *place.sandbox, *WORDS, timeout=900)
    assert done.returncode == 0, done.stdout
    return done.stdout


def _steps_before_a_kill(place: Workplace) -> dict[int, float]:
    """Train until some checkpoints are whole, kill -9 the runner, and return each step's reward."""
    with place.start("run", "tiny", *place.sandbox, *WORDS) as process:
        deadline = time.monotonic() + 900
        while _latest(place) < FINISHED and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
        printed = process.communicate()[0]
    assert alive, printed
    assert _latest(place) >= FINISHED, "no checkpoint in time"
    return _rewards(next((place.store / "ppo").glob("*.partial")))


def _latest(place: Workplace) -> int:
    """The step of the last checkpoint that both networks have whole."""
    found = [path.read_text() for path in (place.store / "ppo").glob("*.partial/checkpoints/_*/latest")]
    return min((int(tag.rpartition("step")[2]) for tag in found), default=0) if len(found) == 2 else 0


def _rewards(folder: Path) -> dict[int, float]:
    rows = [row for row in read_lines(folder / "figures.jsonl") if row["tag"] == "train/reward"]
    return {row["step"]: row["value"] for row in rows}


@contextmanager
def _killing_one_server() -> Iterator[list[str]]:
    """kill -9 the first server of an evaluated policy that has begun to answer."""
    killed: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2) and not killed:
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    line = " ".join(process.cmdline())
                    if "vllm.entrypoints" in line and "lifeline" not in line and process.net_connections():
                        time.sleep(3)
                        process.kill()
                        killed.append("vllm")
                        return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _finished(place: Workplace, phase: str) -> Path:
    """The phase's only folder."""
    (found,) = (path for path in (place.store / phase).iterdir() if path.is_dir())
    return found


def _check_steps(place: Workplace, first: dict[int, float]) -> None:
    folder = _finished(place, "ppo")
    rewards = _rewards(folder)
    assert sorted(rewards) == list(range(1, STEPS + 1))
    assert all(0.0 <= reward <= 1.0 for reward in rewards.values())
    finished = {step: reward for step, reward in first.items() if step <= FINISHED}
    assert {step: rewards[step] for step in finished} == finished, "steps before the kill were not played again"
    apart = [row["value"] for row in read_lines(folder / "figures.jsonl") if row["tag"] == "train/vllm_kl"]
    assert len(apart) >= STEPS
    assert max(map(abs, apart)) < 1e-2, "new weights reach the engine"
    assert (folder / "model" / "config.json").is_file()
    assert not list(folder.glob("checkpoints/_*")), "optimizer states of a finished training"


def _check_episodes(place: Workplace) -> None:
    folder = _finished(place, "ppo")
    rows = [row for path in folder.glob("episodes/*.jsonl") for row in read_lines(path)]
    assert len(rows) >= STEPS * TASKS * SAMPLES
    assert set(Counter(row["outcome"] for row in rows)) <= {"pass", "fail"}
    assert {row["reward"] for row in rows} <= {0.0, 1.0}
    assert all(row["verdict"] for row in rows), "the hidden tests have judged every one"


def _check_tracking(place: Workplace) -> None:
    with quiet_mlflow(10.0):
        store = Store(f"sqlite:///{place.folder / 'outputs' / 'mlflow.db'}", "tiny")
        children = store.children(store.parents()[0])
        curve = store.client.get_metric_history(children["ppo"].info.run_id, "ppo/reward")
        models = store.client.search_registered_models()
    for phase in ("sft", "ppo", "evaluate", "analyze"):
        assert children[phase].info.status == "FINISHED"
    assert sorted(point.step for point in curve) == list(range(1, STEPS + 1)), "each step once"
    assert "endless-tiny-ppo" in {model.name for model in models}


def _check_scores(place: Workplace) -> None:
    folder = _finished(place, "evaluate")
    scores: dict[str, Any] = json.loads((folder / "dev" / "scores.json").read_text())
    assert set(scores["models"]) == {"base", "sft", "ppo", "solver"}
    for row in scores["models"].values():
        assert row["tasks"] == TASKS
        assert row["infra"] == 0, "a server's death is nobody's failure"
    assert scores["models"]["base"]["passes"] == 0, "random weights solve nothing"
    assert [(pair["before"], pair["after"]) for pair in scores["pairs"]] == [
        ("base", "sft"),
        ("sft", "ppo"),
        ("base", "ppo"),
    ]


def _check_report(place: Workplace) -> None:
    page = (_finished(place, "analyze") / "report.html").read_text()
    for word in ("Scores on the training tasks", ">base<", ">sft<", ">ppo<", "Failure modes"):
        assert word in page, word
