"""Running a recipe to its end while processes are killed: what the tests of crashes have in common."""

import contextlib
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
from support.endless import Workplace
from support.loopback import Loopback

from runner.store.jsonl import read_lines

IN_FLIGHT = 2 * 64
"""Answers that may be on their way, or not yet written down, when a runner is killed: two to a worker."""


@dataclass
class Victim:
    """A run of the quickstart that is started again after each kill of its runner. A context manager."""

    place: Workplace
    words: Sequence[str]
    dice: random.Random
    kills: int = 0
    """How often the runner was killed."""
    _process: "subprocess.Popen[str] | None" = None

    def __enter__(self) -> "Victim":
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def until(self, file: str, lines: int) -> None:
        """Let it run until the file of a phase has so many lines, and a moment longer."""
        process = self._running()
        while process.poll() is None and lines_in(self.place, file) < lines:
            time.sleep(0.02)
        time.sleep(self.dice.uniform(0.0, 0.4))
        assert process.poll() is None, f"it ended by itself: {process.communicate()[0]}"

    def kill(self) -> None:
        """SIGKILL to the runner."""
        self.note("runner")
        process, self._process = self._running(), None
        process.kill()
        process.communicate(timeout=60)
        self.kills += 1

    def kill_helper(self) -> None:
        """SIGKILL to a process that the runner has started, or to one that such a one has: not to an agent's."""
        while not (found := _helpers(self._running().pid)):
            time.sleep(0.05)
        chosen = self.dice.choice(found)
        self.note(f"helper {found.index(chosen)} of {len(found)}")
        with contextlib.suppress(psutil.NoSuchProcess):
            chosen.kill()

    def note(self, killed: str) -> None:
        """For a test that fails: who was killed, and when."""
        print(f"{time.strftime('%X')} after {lines_in(self.place, 'episodes.jsonl')} episodes: kill {killed}")

    def finish(self) -> str:
        """Let it end, which must be well; returns what it printed."""
        process = self._running()
        printed, _ = process.communicate(timeout=900)
        assert process.returncode == 0, printed
        return printed

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None:
            self._process = self.place.start("run", "quickstart", *self.place.sandbox, *self.words)
        return self._process


def _helpers(runner: int) -> list[psutil.Process]:
    found = psutil.Process(runner).children()
    for helper in list(found):
        with contextlib.suppress(psutil.NoSuchProcess):
            found += helper.children()
    return found


def lines_in(place: Workplace, name: str) -> int:
    """Lines of a phase's file, finished or not."""
    return sum(1 for path in place.store.glob(f"*/*/{name}") for _ in read_lines(path))


def at_random(victim: Victim, blows: Sequence[Callable[[], None]], episodes: int) -> None:
    """Deal every blow once, in any order and after any number of episodes."""
    order = victim.dice.sample(blows, len(blows))
    for count, blow in zip(sorted(victim.dice.sample(range(episodes * 9 // 10), len(blows))), order, strict=True):
        victim.until("episodes.jsonl", count)
        blow()


def assert_as_calm(killed: Workplace, calm: Workplace, samples: int) -> None:
    """Every sample of a task is there once, and went like the only one of the run that nobody disturbed."""
    assert killed.results().draws() == calm.results().draws()
    expected = {name.partition("/")[0]: episode for name, episode in calm.results().episodes().items()}
    found = killed.results().episodes()
    assert set(found) == {f"{task}/{sample}" for task in expected for sample in range(samples)}
    for name, episode in found.items():
        assert episode == expected[name.partition("/")[0]], name


def assert_paid_once(victim: Victim, server: Loopback) -> None:
    """An answer that was still on its way when its runner was killed is asked for again; no other is."""
    slots = Counter(row["slot"] for row in victim.place.journal())
    assert max(slots.values()) == 1, "a journal slot was answered twice"
    assert len(slots) <= len(server.billed) <= len(slots) + victim.kills * IN_FLIGHT
