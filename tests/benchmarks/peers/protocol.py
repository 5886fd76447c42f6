"""What the drivers of the sandbox benchmark have in common: one process each, spoken to in lines of JSON.

A driver says how its tool opens one sandbox, runs one command in it and grades it; the measuring (``measuring``) is
alike for all. It runs on its tool's own Python, with nothing of this project installed: the standard library only.

Its arguments are one JSON object (``Setup``). Then each line on standard input asks for one measurement, and one line
on standard output answers it: ``{"do": "burst", ...}`` or ``{"do": "steady", ...}``.
An answer holds seconds, or ``error``: why the tool could not do it.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from peers.measuring import (
    AsyncOpen,
    Burst,
    Open,
    Steady,
    burst_in_tasks,
    burst_in_threads,
    seconds_of,
    steady_run,
)


@dataclass(frozen=True)
class Setup:
    """What a driver needs to know."""

    image: str
    """Holds bash, Python, pytest, tmux and swe-rex's server; its user is root."""
    bridge: bool
    """The engine has the usual bridge network."""
    scratch: str
    """A folder for files, which the engine's daemon can see."""
    backend: str = ""
    """Of ours: docker, apptainer or local."""
    cache: str = ""
    """Of ours: the folder for what is made once."""


def serve(make: Callable[[Setup, int], AbstractContextManager[Open]]) -> None:
    """Answer until standard input ends. ``make`` readies a tool whose calls block, for so many sandboxes at once."""
    _serve(make, burst_in_threads)


def serve_async(make: Callable[[Setup, int], AbstractContextManager[AsyncOpen]]) -> None:
    """The same for a tool with coroutines, all in one event loop."""
    _serve(make, lambda opened, burst: asyncio.run(burst_in_tasks(opened, burst)))


def _serve(make: Callable[[Setup, int], AbstractContextManager[Any]], measure: Callable[[Any, Burst], Any]) -> None:
    setup = Setup(**json.loads(sys.argv[1]))
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what a tool prints must not be taken for an answer
        for line in sys.stdin:
            request = json.loads(line)
            kind = request.pop("do")
            try:
                if kind == "burst":
                    burst = Burst(**request)
                    with make(setup, burst.sandboxes) as opened:
                        answer = seconds_of(measure(opened, burst))
                else:
                    steady = Steady(**request)
                    with make(setup, steady.slots) as opened:
                        answer = {"waits": steady_run(opened, steady)}
            except Exception as error:  # whatever a tool raises is its answer
                answer = {"error": _words(error)}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _words(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return _words(error.exceptions[0])
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
