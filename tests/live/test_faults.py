"""The world fails in mid-run: every time a bounded end, one message that says what to do, and a resume that is whole.

Where the engine does not matter the sandbox agrees with everything, and a run takes seconds.
"""

import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.agreeable import ENVIRONMENT, WORDS
from support.cable import cable
from support.endless import Workplace, live_overrides, quickstart_server
from support.leftovers import containers_of, processes_of
from support.loopback import Chance, Fault, Loopback
from support.smalldisk import SmallDisks, small_disks
from support.stores import Store

from runner.store.jsonl import read_lines
from runner.store.spare import SIZE
from runner.tracking.mlflow.quiet import quiet_mlflow
from runner.tracking.ui import running

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SMALL = ("generate.draws=4", "filter.n=2", "tracking=off")
PAGE = 4096


def errors(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("error: ")]


def assert_same_results(one: Workplace, other: Workplace) -> None:
    assert one.results().draws() == other.results().draws()
    assert one.results().episodes() == other.results().episodes()
    assert one.results().tasks() == other.results().tasks()
    assert one.results().split() == other.results().split()


def assert_nothing_paid_twice(place: Workplace, server: Loopback) -> None:
    slots = Counter(row["slot"] for row in place.journal())
    assert set(slots.values()) == {1}, "a journal slot was answered twice"
    assert len(server.billed) == len(slots)


def wait_until(holds: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines_in(place: Workplace, name: str) -> int:
    return sum(1 for path in place.store.glob(f"*/*.partial/{name}") for _ in read_lines(path))


# The agreeable sandbox: what the undisturbed run comes to.


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("calm") / "work", WORDS, ENVIRONMENT)
    with quickstart_server() as server:
        place.run("quickstart", *SMALL, *live_overrides(server.openai_url))
    return place


# A disk that is full, or read-only.


@pytest.fixture(scope="module")
def disks() -> Iterator[SmallDisks]:
    try:
        with small_disks() as made:
            yield made
    except OSError as error:
        pytest.skip(str(error))


def mount_recipe(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    disks.mount(outputs / "runs", PAGE)
    return outputs / "runs"


def mount_journal(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    disks.mount(outputs / "store" / "journal", SIZE + 8 * PAGE)
    return outputs / "store" / "journal"


def mount_draws(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    """The first file of the phase has room, and so have tasks: it is the file of draws that has none."""
    phase = outputs / "store" / "generate"
    disks.mount(phase, -(-(generate / "phase.json").stat().st_size // PAGE) * PAGE)
    disks.mount(phase / f"{generate.name}.partial" / "tasks", 1 << 20)
    return phase


def mount_tasks(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    tasks = outputs / "store" / "generate" / f"{generate.name}.partial" / "tasks"
    disks.mount(tasks, 5 * PAGE)
    return tasks


def mount_episodes(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    disks.mount(outputs / "store" / "filter", 6 * PAGE)
    return outputs / "store" / "filter"


def mount_everything(disks: SmallDisks, outputs: Path, generate: Path) -> Path:
    disks.mount(outputs, SIZE + 50 * PAGE)
    return outputs


@pytest.mark.parametrize(
    ("mount", "file"),
    [
        (mount_recipe, "recipe.yaml"),
        (mount_journal, "journal/.spare"),
        (mount_draws, "draws.jsonl"),
        (mount_tasks, "tasks/000/"),
        (mount_episodes, "episodes.jsonl"),
        (mount_everything, "outputs"),
    ],
)
def test_a_full_disk_ends_the_run_with_what_to_do_and_costs_nothing(
    tmp_path: Path, disks: SmallDisks, calm: Workplace, mount: Callable[[SmallDisks, Path, Path], Path], file: str
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    place = Workplace(folder, WORDS, ENVIRONMENT, disks.inside(folder))
    seen = replace(place, folder=disks.seen(folder))
    with quickstart_server() as server:
        words = [*SMALL, *live_overrides(server.openai_url)]
        full = mount(disks, folder / "outputs", calm.results().generate)
        ended = place.endless("run", "quickstart", *WORDS, *words)
        assert ended.returncode == 1, ended.stdout
        (line,) = errors(ended.stdout)
        assert line.startswith("error: cannot write ")
        assert file in line
        assert line.endswith(": No space left on device; free some space and run the same command again")
        disks.resize(full, 64 << 20)
        place.run("quickstart", *words)
    assert_same_results(seen, calm)
    assert_nothing_paid_twice(seen, server)
    assert not list((seen.store / "journal").rglob(".spare")), "the spare room is given back"


def test_a_read_only_outputs_folder_is_named_and_nothing_is_asked(tmp_path: Path, disks: SmallDisks) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    place = Workplace(folder, WORDS, ENVIRONMENT, disks.inside(folder))
    disks.mount(folder / "outputs", 64 << 20)
    disks.make_read_only(folder / "outputs")
    with quickstart_server() as server:
        words = [*SMALL, *live_overrides(server.openai_url)]
        ended = place.endless("run", "quickstart", *WORDS, *words)
        assert ended.returncode == 1, ended.stdout
        (line,) = errors(ended.stdout)
        assert f"cannot write {folder / 'outputs'}" in line
        assert "Read-only file system; check the permissions" in line
        assert server.calls == []
        disks.make_read_only(folder / "outputs", read_only=False)
        place.run("quickstart", *words)


def test_a_full_disk_keeps_mlflow_from_writing_and_no_result_from_the_user(
    tmp_path: Path, disks: SmallDisks, calm: Workplace
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    place = Workplace(folder, WORDS, ENVIRONMENT, disks.inside(folder))
    disks.mount(folder / "small", 8 * PAGE)
    with quickstart_server() as server:
        words = [*SMALL[:2], *live_overrides(server.openai_url), f"tracking.uri=sqlite:///{folder}/small/mlflow.db"]
        printed = place.run("quickstart", *words)
    assert printed.count("warning: tracking:") == 1
    assert "the disk is full" in printed
    assert_same_results(place, calm)


# The tracking server.


@dataclass(frozen=True)
class Tracked:
    """Where an MLflow server will be, and the run that did not find it there."""

    port: int
    place: Workplace
    words: list[str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_tracking_server_that_is_down_costs_a_warning_and_gets_all_of_it_later(
    tmp_path: Path, calm: Workplace
) -> None:
    place, port = Workplace(tmp_path / "work", WORDS, ENVIRONMENT), free_port()
    with quickstart_server() as server:
        words = [*SMALL[:2], *live_overrides(server.openai_url), f"tracking.uri=http://127.0.0.1:{port}"]
        printed = place.run("quickstart", *words)
        assert printed.count("warning: tracking:") == 1
        assert "nothing answers there; the run goes on, run the same command again" in " ".join(printed.split())
        assert_same_results(place, calm)
        asked = len(server.calls)
        store = f"sqlite:///{tmp_path}/server.db"
        make_store_at(store)
        with running(store, "127.0.0.1", port) as (address, _):
            printed = place.run("quickstart", *words)
            assert printed.count("already done") == 4
            assert "warning" not in printed
            with quiet_mlflow(10.0):
                (parent,) = (found := Store(address)).parents()
                assert set(found.children(parent)) == {"generate", "filter", "dataset", "analyze"}
                assert parent.data.metrics["filter/pass_at_2"] == 1.0
        assert len(server.calls) == asked


def make_store_at(uri: str) -> None:
    from mlflow.tracking import MlflowClient

    with quiet_mlflow(10.0):
        MlflowClient(tracking_uri=uri)


def test_a_tracking_server_that_hangs_holds_a_run_up_for_seconds_only(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT)
    with quickstart_server() as server, socket.create_server(("127.0.0.1", 0)) as silent:
        words = [*SMALL[:2], *live_overrides(server.openai_url)]
        place.run("quickstart", *words, "tracking=off")
        uri = f"tracking.uri=http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        printed = place.run("quickstart", *words, uri, "tracking.timeout_seconds=1")
    assert time.monotonic() - began < 30
    assert printed.count("warning: tracking:") == 1
    assert "no answer within 1 s" in printed


# Ctrl-C.


@contextmanager
def started(place: Workplace, *words: str) -> Iterator["subprocess.Popen[str]"]:
    """A run in a process group of its own, which is a terminal's job: Ctrl-C reaches all of it."""
    process = place.start("run", "quickstart", *place.sandbox, *words)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, docker_words: tuple[str, ...]) -> Workplace:
    """What a run in containers comes to."""
    place = Workplace(tmp_path_factory.mktemp("undisturbed") / "work", docker_words)
    with quickstart_server() as server:
        place.run("quickstart", *SMALL, *live_overrides(server.openai_url))
    return place


@pytest.fixture(scope="module")
def undisturbed_locally(tmp_path_factory: pytest.TempPathFactory, local_words: tuple[str, ...]) -> Workplace:
    """What a run in local sandboxes comes to."""
    place = Workplace(tmp_path_factory.mktemp("undisturbed") / "work", local_words)
    with quickstart_server() as server:
        place.run("quickstart", *SMALL, *live_overrides(server.openai_url))
    return place


@pytest.mark.docker
def test_ctrl_c_in_containers_leaves_none_and_can_be_gone_on_with(undisturbed: Workplace, tmp_path: Path) -> None:
    place = replace(undisturbed, folder=tmp_path / "work")
    interrupt(place, "episodes.jsonl")
    assert_same_results(place, undisturbed)


@pytest.mark.local
@pytest.mark.parametrize("file", ["draws.jsonl", "episodes.jsonl"])
def test_ctrl_c_leaves_no_process_and_can_be_gone_on_with(
    tmp_path: Path, local_words: tuple[str, ...], undisturbed_locally: Workplace, file: str
) -> None:
    place = replace(undisturbed_locally, folder=tmp_path / "work")
    interrupt(place, file)
    assert_same_results(place, undisturbed_locally)


def interrupt(real: Workplace, file: str) -> None:
    """Ctrl-C once the file has a line, and then the same command again."""
    with quickstart_server(latency=0.1) as server:
        words = [*SMALL, *live_overrides(server.openai_url)]
        with started(real, *words) as process:
            wait_until(lambda: lines_in(real, file) >= 1, process)
            began = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        assert process.returncode == 130, printed
        assert time.monotonic() - began < 30
        assert "stopping: calls in flight are finished and kept" in printed
        assert "stopped; run the same command again to go on" in printed
        assert "Traceback" not in printed
        assert processes_of(real.folder) == []
        assert containers_of(real) == []
        assert "going on after" in real.run("quickstart", *words)
        assert_nothing_paid_twice(real, server)


@pytest.mark.parametrize("backend", ["local", "docker"])
def test_a_second_ctrl_c_ends_it_at_once(tmp_path: Path, request: pytest.FixtureRequest, backend: str) -> None:
    place = Workplace(tmp_path / "work", request.getfixturevalue(f"{backend}_words"))
    hung: list[bytes] = []

    def fault_for(raw: bytes) -> Fault:
        """The solver gets no answer, so that its sandboxes are open."""
        if b"<command>" not in raw:
            return Fault.NONE
        hung.append(raw)
        return Fault.HANG

    with quickstart_server() as server:
        server.fault_for = fault_for  # type: ignore[method-assign]
        words = [*SMALL, *live_overrides(server.openai_url)]
        with started(place, *words) as process:
            wait_until(lambda: len(hung) >= 4, process)
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(1)
            assert process.poll() is None, "calls in flight are waited for"
            began = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=60)
        assert time.monotonic() - began < 5
    assert process.returncode == 130, printed
    assert "ended at once" in printed
    assert "Traceback" not in printed
    assert processes_of(place.folder) == []
    assert containers_of(place) == []


# The provider, and the engine.


def test_a_provider_that_dies_in_mid_run_ends_it_in_bounded_time(tmp_path: Path, calm: Workplace) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT)
    with quickstart_server(latency=0.05) as server:
        words = [*SMALL, *live_overrides(server.openai_url)]
        quick = [f"models.{role}.max_retries=1" for role in ("generator", "solver")]
        with started(place, *words, *quick) as process:
            wait_until(lambda: lines_in(place, "draws.jsonl") >= 2, process)
            server.faults = Chance(1.0, (Fault.RESET,), most=10**9)
            printed, _ = process.communicate(timeout=60)
        assert process.returncode == 1, printed
        (line,) = errors(printed)
        for word in (
            "lost to infrastructure",
            "(openai at http://127.0.0.1",
            "cannot be reached",
            "run the same command",
        ):
            assert word in line
        server.faults = ()
        place.run("quickstart", *words)
    assert_same_results(place, calm)
    assert_nothing_paid_twice(place, server)


@pytest.mark.docker
@pytest.mark.parametrize("file", ["draws.jsonl", "episodes.jsonl"])
def test_an_engine_that_goes_away_in_mid_run_is_nobodys_failure(
    tmp_path: Path, undisturbed: Workplace, docker_address: str, file: str
) -> None:
    socket_path = tmp_path / "engine.sock"
    words = [word for word in undisturbed.sandbox if not word.startswith("sandbox.address=")]
    place = Workplace(tmp_path / "work", (*words, f"sandbox.address=unix://{socket_path}"))
    engine = docker_address.removeprefix("unix://")
    with quickstart_server(latency=0.1) as server:
        more = [*SMALL, *live_overrides(server.openai_url), "executor.backoff_seconds=0.2", "executor.engine_seconds=2"]
        with cable(socket_path, engine) as laid, started(place, *more) as process:
            wait_until(lambda: lines_in(place, file) >= 1, process)
            laid.cut()
            began = time.monotonic()
            printed, _ = process.communicate(timeout=120)
        assert process.returncode == 1, printed
        assert time.monotonic() - began < 60
        (line,) = errors(printed)
        for word in ("lost to infrastructure", f"engine at unix://{socket_path}", "run the same command again"):
            assert word in line
        assert "Traceback" not in printed
        with cable(socket_path, engine):
            place.run("quickstart", *more)
            assert containers_of(place) == []
    assert_nothing_paid_twice(place, server)
    assert_same_results(place, undisturbed)
