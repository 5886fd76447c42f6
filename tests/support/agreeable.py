"""A sandbox for tests in which the engine does not matter: it runs nothing and says what the recordings expect.

Named in a recipe as ``sandbox.backend=support.agreeable:AgreeableBackend``; ``words`` and ``environment`` do that for a
`Workplace`. A recorded test passes where the real sandboxes let it pass, as far as its text alone can tell.
"""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support.endless import RECORDINGS

from runner.llm.recording import order, read_file
from runner.phases.generate.reply import ReplyError, sections
from runner.sandbox.null import NullBackend
from runner.schema import Sandbox

WORDS = ("sandbox.backend=support.agreeable:AgreeableBackend", "executor.backoff_seconds=0.05")
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])}


class AgreeableBackend(NullBackend):
    """See ``NullBackend``."""

    def __init__(self, config: Sandbox, cache: Path, run_label: str) -> None:
        super().__init__(config, cache, run_label)
        self.verdict = agree


def agree(test: str, commands: Sequence[str]) -> bool:
    """Whether a test passes after these commands: final tests fail on what is untouched, unless that was recorded."""
    initial, final = _accepted()
    if test in initial:
        return True
    return bool(commands) if test in final else "def test" in test and test in _repaired_finals()


@cache
def _accepted() -> tuple[frozenset[str], frozenset[str]]:
    """The initial and the final tests that ended a stage well."""
    return frozenset(_tests("environment", last=True)), frozenset(_tests("final", last=True))


@cache
def _repaired_finals() -> frozenset[str]:
    """Final tests that the real sandboxes sent back."""
    return frozenset(_tests("final", last=False)) - _accepted()[1]


def _tests(stage: str, *, last: bool) -> list[str]:
    tag = "initial_test" if stage == "environment" else "final_test"
    found = []
    for path in sorted(RECORDINGS.glob("*.yaml")):
        replies = read_file(path)
        slots = sorted((slot for slot in replies if slot.startswith(stage)), key=order)
        went_on = any(slot.startswith("final") for slot in replies)  # else the draw was given up
        for slot in slots[-1:] if last else slots[:-1]:
            if went_on or not last:
                found += _section(replies[slot].text, tag)
    return found


def _section(reply: str, tag: str) -> list[str]:
    try:
        return [sections(reply, (tag,), ("setup", "start", "solution"))[tag]]
    except ReplyError:
        return []
