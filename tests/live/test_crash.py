"""kill -9 at any moment: nothing is lost, nothing is paid twice, nothing is left behind."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.endless import Workplace, live_overrides, quickstart_server
from support.leftovers import containers_of, processes_of

from runner.domain.task import Environment, Task
from runner.store.tasks import write_task

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

KILLS = 10


def test_a_run_killed_ten_times_ends_like_one_that_was_not(workplace: Workplace, tmp_path: Path) -> None:
    calm, killed = replace(workplace, folder=tmp_path / "calm"), replace(workplace, folder=tmp_path / "killed")
    began = time.monotonic()
    with quickstart_server(latency=0.05) as server:
        words = [*live_overrides(server.openai_url), "tracking=off"]
        calm.run("quickstart", *words)
        duration, asked = time.monotonic() - began, len(server.calls)
        dice = random.Random(4)
        for _ in range(KILLS):
            _run_and_kill(killed, words, after=dice.uniform(0.3, 1.7) * duration / KILLS)
        killed.run("quickstart", *words)
        paid = len(server.calls) - asked
    assert killed.results().draws() == calm.results().draws()
    assert killed.results().episodes() == calm.results().episodes()
    assert killed.results().tasks() == calm.results().tasks()
    assert killed.results().split() == calm.results().split()
    slots = Counter(row["slot"] for row in killed.journal())
    assert max(slots.values()) == 1, "a journal slot was answered twice"
    assert len(slots) == len(calm.journal())
    # A call whose answer was still on its way when its process was killed has to be asked again; no other has.
    assert paid <= len(slots) + KILLS * 2 * 16
    assert processes_of(killed.folder) == []
    assert containers_of(killed) == []
    assert list((killed.folder / "outputs").rglob("*.partial*")) == []


def test_a_changed_setting_pays_only_for_what_is_new(local_workplace: Workplace, tmp_path: Path) -> None:
    benchmark = tmp_path / "benchmark" / "one"
    write_task(benchmark, Task(id="one", instruction="Something else.", environment=Environment(), final_test="x"))
    with quickstart_server() as server:
        words = [*live_overrides(server.openai_url), "tracking=off", "generate.draws=3", "executor.infra_share=0"]
        local_workplace.run("quickstart", *words, "filter.n=1")
        asked = len(server.calls)
        local_workplace.run("quickstart", *words, "filter.n=1", f"generate.decontaminate=[{benchmark.parent}]")
        assert len(server.calls) == asked, "another gate looks at the same answers"
        local_workplace.run("quickstart", *words, "filter.n=2")
        solving = [row for row in local_workplace.journal() if row["slot"].startswith("solve/")]
        fresh = [row for row in solving if row["slot"].split("/")[2] == "1"]
        assert len(server.calls) == asked + len(fresh), "the first samples were answered before"


def _run_and_kill(place: Workplace, words: list[str], *, after: float) -> None:
    process = place.start("run", "quickstart", *place.sandbox, *words)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
