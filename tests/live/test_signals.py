"""A run that is told to end, by a supervisor or by a terminal that closes: as with Ctrl-C (see ``test_faults``) its
sandboxes are removed, what is done is kept, and the same command goes on."""

import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from support.agreeable import ENVIRONMENT, WORDS
from support.endless import Workplace, live_overrides, quickstart_server
from support.leftovers import adopting, containers_of
from support.loopback import Fault, Loopback
from support.violence import lines_in

from runner.domain.task import Environment, Task
from runner.store.tasks import write_task

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

FEW = ("generate.draws=4", "filter.n=2", "tracking=off")


@contextmanager
def started(place: Workplace, *words: str) -> Iterator["subprocess.Popen[str]"]:
    process = place.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(holds: Callable[[], bool], process: "subprocess.Popen[str]", seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_supervisors_signal_ends_a_run_as_ctrl_c_does(workplace: Workplace, number: int) -> None:
    with quickstart_server(latency=0.1) as server, adopting() as family:
        words = [*FEW, *live_overrides(server.openai_url)]
        with started(workplace, "run", "quickstart", *workplace.sandbox, *words) as process:
            wait_until(lambda: lines_in(workplace, "episodes.jsonl") >= 1, process)
            process.send_signal(number)
            printed, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + number, printed
        assert "stopping: calls in flight are finished and kept" in printed
        assert "stopped; run the same command again to go on" in printed
        assert "Traceback" not in printed
        assert family.left() == []
    assert containers_of(workplace) == []


def test_a_second_one_ends_it_at_once_but_of_a_hang_up(workplace: Workplace) -> None:
    with hanging_solver() as (server, hung), adopting() as family:
        words = [*FEW, *live_overrides(server.openai_url)]
        with started(workplace, "run", "quickstart", *workplace.sandbox, *words) as process:
            wait_until(lambda: len(hung) >= 4, process)
            for number in (signal.SIGTERM, signal.SIGHUP):
                process.send_signal(number)
                time.sleep(1)
            assert process.poll() is None, "calls in flight are waited for"
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            printed, _ = process.communicate(timeout=60)
        assert time.monotonic() - began < 10
        assert process.returncode == 128 + signal.SIGTERM, printed
        assert "ended at once" in printed
        assert "Traceback" not in printed
        assert family.left() == []
    assert containers_of(workplace) == []


@contextmanager
def hanging_solver() -> Iterator[tuple[Loopback, list[bytes]]]:
    """A server that answers no solver, whose sandboxes are open meanwhile."""
    hung: list[bytes] = []

    def fault_for(raw: bytes) -> Fault:
        if b"<command>" not in raw:
            return Fault.NONE
        hung.append(raw)
        return Fault.HANG

    with quickstart_server() as server:
        server.fault_for = fault_for  # type: ignore[method-assign]
        yield server, hung


def test_a_run_whose_terminal_closes_ends_well_and_can_be_gone_on_with(workplace: Workplace) -> None:
    with quickstart_server(latency=0.1) as server, adopting() as family:
        words = [*FEW, *live_overrides(server.openai_url)]
        with in_terminal(workplace, "run", "quickstart", *workplace.sandbox, *words) as terminal:
            wait_until(lambda: terminal.read() and lines_in(workplace, "episodes.jsonl") >= 1, terminal.process)
            terminal.close()
            assert terminal.process.wait(60) == 128 + signal.SIGHUP
        assert family.left() == []
        assert containers_of(workplace) == []
        assert "going on after" in workplace.run("quickstart", *words)


class Terminal:
    """One that a command runs in."""

    def __init__(self, place: Workplace, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        place.folder.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *place.inside, sys.executable, "-m", "runner.cli", *words],
            **dict.fromkeys(("stdin", "stdout", "stderr"), theirs),
            cwd=place.folder,
            env={**os.environ, **place.environment, "TERM": "xterm"},
            text=True,
        )
        os.close(theirs)

    def read(self) -> bool:
        """Take what is on it."""
        while select.select([self._ours], [], [], 0.0)[0]:
            os.read(self._ours, 1 << 16)
        return True

    def close(self) -> None:
        os.close(self._ours)


@contextmanager
def in_terminal(place: Workplace, *words: str) -> Iterator[Terminal]:
    terminal = Terminal(place, *words)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()


def test_nohup_keeps_a_run_going(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT, ("nohup",))
    with quickstart_server(latency=0.05) as server:
        words = [*FEW, *live_overrides(server.openai_url)]
        with started(place, "run", "quickstart", *WORDS, *words) as process:
            wait_until(lambda: lines_in(place, "draws.jsonl") >= 1, process)
            process.send_signal(signal.SIGHUP)
            assert process.wait(60) == 0


def test_a_run_that_was_disowned_outlives_its_terminal(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT, ("env", "--ignore-signal=HUP"))
    with quickstart_server(latency=0.05) as server:
        words = [*FEW, *live_overrides(server.openai_url)]
        with in_terminal(place, "run", "quickstart", *WORDS, *words) as terminal:
            wait_until(lambda: terminal.read() and lines_in(place, "draws.jsonl") >= 1, terminal.process)
            terminal.close()
            assert terminal.process.wait(60) == 0


def test_a_check_that_is_told_to_end_leaves_nothing(workplace: Workplace) -> None:
    seconds = f"6{random.getrandbits(32)}"
    for name in ("one", "two"):
        setup = f"echo {name}; sleep {seconds}"
        task = Task(id=name, instruction="Wait.", environment=Environment(setup=setup), final_test="x")
        write_task(workplace.folder / "tasks" / name, task)
    words = [f"--set={word.removeprefix('sandbox.')}" for word in workplace.sandbox if word.startswith("sandbox.")]
    backend = workplace.sandbox[0].partition("=")[2]
    with adopting() as family, started(workplace, "tasks", "check", "tasks", "--sandbox", backend, *words) as process:
        wait_until(lambda: sleepers(seconds) == 2, process)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM, printed
        assert time.monotonic() - began < 20
        assert "interrupted" in printed
        assert "Traceback" not in printed
        assert family.left() == []
    assert containers_of(workplace, "tasks-check") == []


def sleepers(seconds: str) -> int:
    return sum(process.info["cmdline"] == ["sleep", seconds] for process in psutil.process_iter(["cmdline"]))
