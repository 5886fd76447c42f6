"""Loops: the same commands with the same results, over and over.

A result that changes is progress, so a command that is run again and says something new is no loop, however often. Two
kinds of repetition get more patience: one that waits for something (``sleep`` in its cycle), and one whose failing
commands differ in their numbers only (another port, ``try3.py`` after ``try2.py``), which may be a search.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from runner.analysis.failures.steps import Step
from runner.analysis.settings import AnalysisSettings


@dataclass(frozen=True, kw_only=True)
class Loop:
    """A stretch of an episode's steps that repeats a cycle."""

    start: int
    """The first step's index among the commands that ran."""
    length: int
    """Steps, an unfinished last round included."""
    cycle: int
    """Steps in one round."""

    @property
    def rounds(self) -> int:
        """Whole ones."""
        return self.length // self.cycle

    @property
    def end(self) -> int:
        """Behind the last step."""
        return self.start + self.length


def find_loops(steps: Sequence[Step], settings: AnalysisSettings) -> list[Loop]:
    """The stretches that repeat often enough, the longest first, none inside another; each with its shortest cycle."""
    same = [(step.command, step.result) for step in steps]
    # A step that succeeded is never a variant of another: its number is its own.
    variants = [step.variant if step.failed else (index, "") for index, step in enumerate(steps)]
    found = [
        loop
        for cycle in range(1, settings.loop_cycle + 1)
        for keys, patient in ((same, False), (variants, True))
        for loop in _repetitions(keys, cycle)
        if loop.rounds >= _enough(steps[loop.start : loop.end], patient, settings)
    ]
    kept: list[Loop] = []
    for loop in sorted(found, key=lambda loop: (-loop.length, loop.cycle, loop.start)):
        if not any(other.start <= loop.start and loop.end <= other.end for other in kept):
            kept.append(loop)
    return kept


def _enough(steps: Sequence[Step], patient: bool, settings: AnalysisSettings) -> int:
    waits = any(step.waits for step in steps)
    return settings.loop_patience if patient or waits else settings.loop_repeats


def _repetitions(keys: Sequence[Hashable], cycle: int) -> list[Loop]:
    """Every stretch, as long as it gets, in which each key equals the one ``cycle`` places before."""
    found: list[Loop] = []
    start = 0
    for place in range(cycle, len(keys) + 1):
        if place == len(keys) or keys[place] != keys[place - cycle]:
            if place - start >= 2 * cycle:
                found.append(Loop(start=start, length=place - start, cycle=cycle))
            start = place - cycle + 1
    return found
