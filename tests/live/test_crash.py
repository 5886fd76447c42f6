"""kill -9 at any moment, to the runner, its helpers and the engine's daemon, while hundreds of episodes run: nothing is
lost, nothing is paid twice, no fault becomes a failure, and nothing is left behind."""

import random
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.endless import Workplace, live_overrides, quickstart_server
from support.leftovers import adopting, files_of, left_at, mounts_of
from support.loopback import Loopback
from support.violence import Victim, assert_as_calm, assert_paid_once, at_random

from runner.domain.task import Environment, Task
from runner.store.tasks import write_task

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

DRAWS, TASKS = 7, 4
"""The first seven recorded draws become four tasks, one of which nobody solves."""
FEWER = 48
"""Episodes where there is no daemon to kill."""


def words(server: Loopback, samples: int) -> list[str]:
    few = [f"generate.draws={DRAWS}", f"filter.n={samples}", "tracking=off"]
    return [*live_overrides(server.openai_url), *few]


def temporary(folder: Path) -> dict[str, str]:
    """An environment with a temporary folder of its own, which everybody may use, as /tmp."""
    place = folder / "temporary"
    place.mkdir()
    place.chmod(0o1777)
    return {"TMPDIR": str(place)}


@pytest.mark.docker
def test_two_hundred_episodes_survive_kills_of_the_runner_and_of_the_daemon(
    tmp_path: Path, docker_words: tuple[str, ...], daemon: Daemon
) -> None:
    calm = Workplace(tmp_path / "calm", docker_words)
    address = f"sandbox.address={daemon.address}"
    place = Workplace(tmp_path / "killed", (*docker_words, address), temporary(tmp_path))
    with quickstart_server() as server:
        calm.run("quickstart", *words(server, 1))
    with (
        quickstart_server() as server,
        adopting() as family,
        Victim(place, words(server, 200 // TASKS), random.Random(3)) as victim,
    ):

        def kill_daemon() -> None:
            victim.note("daemon")
            daemon.kill()
            time.sleep(victim.dice.uniform(0.0, 3.0))
            daemon.start()

        def kill_both() -> None:
            victim.note("daemon")
            daemon.kill()
            victim.kill()
            daemon.start()

        for draw, blow in enumerate([victim.kill, kill_daemon], start=2):
            victim.until("draws.jsonl", draw)
            blow()
        at_random(victim, [*[victim.kill] * 3, *[kill_daemon] * 3, *[kill_both] * 2], 200)
        victim.finish()
        assert family.left(but=daemon.members) == []
    assert_as_calm(place, calm, 200 // TASKS)
    assert_paid_once(victim, server)
    assert left_at(daemon) == []
    assert files_of(place) == []
    assert mounts_of(tmp_path) == []


@pytest.mark.local
def test_local_episodes_survive_kills_of_the_runner_and_its_helpers(
    tmp_path: Path, local_words: tuple[str, ...]
) -> None:
    calm = Workplace(tmp_path / "calm", local_words)
    survive_without_a_daemon(calm, Workplace(tmp_path / "killed", local_words, temporary(tmp_path)))


@pytest.mark.apptainer
def test_apptainer_episodes_survive_kills_of_the_runner_and_its_helpers(
    tmp_path: Path, apptainer_workplace: Workplace
) -> None:
    calm = Workplace(tmp_path / "calm", ("sandbox=local",))
    survive_without_a_daemon(calm, replace(apptainer_workplace, environment=temporary(apptainer_workplace.folder)))


def survive_without_a_daemon(calm: Workplace, place: Workplace) -> None:
    with quickstart_server() as server:
        calm.run("quickstart", *words(server, 1))
    with (
        quickstart_server() as server,
        adopting() as family,
        Victim(place, words(server, FEWER // TASKS), random.Random(5)) as victim,
    ):
        for draw, blow in enumerate([victim.kill, victim.kill_helper], start=1):
            victim.until("draws.jsonl", draw)
            blow()
        at_random(victim, [*[victim.kill] * 3, *[victim.kill_helper] * 4], FEWER)
        victim.finish()
        assert family.left() == []
    assert_as_calm(place, calm, FEWER // TASKS)
    assert_paid_once(victim, server)
    assert files_of(place) == []
    assert mounts_of(place.folder) == []


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
