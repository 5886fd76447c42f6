"""The measuring in the sandbox benchmark's drivers: the same steps for every tool (see ``protocol``)."""

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

ANSWER = "/tmp/answer"
TEST = f'''from pathlib import Path


def test_the_answer_is_there():
    assert Path("{ANSWER}").is_file()


def test_the_answer_is_right():
    assert Path("{ANSWER}").read_text() == "42\\n"
'''
"""What all of them grade, after the agent wrote the right answer."""
FEWEST = 3
"""Commands that each sandbox runs, however long they take."""
KEPT = 100
"""Times that are kept of a list, evenly spaced after sorting."""
PAUSE = 0.25
"""Seconds between two commands of a steady run's episode."""


@dataclass(frozen=True)
class Burst:
    """Open some sandboxes at once, run commands in all of them at once, grade them at once, remove them."""

    sandboxes: int
    seconds: float
    """How long each runs commands, one right after the other; at least ``FEWEST``."""
    paced: int
    """Commands that each then runs with a pause of a second between them, as an agent whose model has to think."""


@dataclass(frozen=True)
class Steady:
    """Twice as many workers as slots, each with one episode of random length: what does one wait for?"""

    slots: int
    seconds: float
    """An episode's mean length."""


class Box(Protocol):
    """An open sandbox of a tool whose calls block."""

    def run(self, command: str) -> str:
        """Run a command in bash; its output."""

    def grade(self) -> bool:
        """Whether ``TEST`` passes, found out in the tool's own way."""


class AsyncBox(Protocol):
    """An open sandbox of a tool with coroutines."""

    async def run(self, command: str) -> str: ...

    async def grade(self) -> bool: ...


Open = Callable[[], AbstractContextManager[Box]]
AsyncOpen = Callable[[], AbstractAsyncContextManager[AsyncBox]]


@dataclass
class Times:
    """When things began and ended, in one sandbox."""

    start: list[tuple[float, float]] = field(default_factory=list)
    """From asking for the sandbox to its first command's answer."""
    command: list[tuple[float, float]] = field(default_factory=list)
    paced: list[tuple[float, float]] = field(default_factory=list)
    grade: list[tuple[float, float]] = field(default_factory=list)


def burst_in_threads(open_box: Open, burst: Burst) -> list[Times]:
    gate = threading.Barrier(burst.sandboxes)

    @asynccontextmanager
    async def opened() -> Any:
        with open_box() as box:
            yield _Inline(box)

    async def wait() -> None:
        gate.wait()

    async def sleep(seconds: float) -> None:
        time.sleep(seconds)

    def one(_: int) -> Times | BaseException:
        return _finish(_episode(opened, burst, wait, gate.abort, sleep))

    with ThreadPoolExecutor(burst.sandboxes) as pool:
        return _whole(list(pool.map(one, range(burst.sandboxes))))


async def burst_in_tasks(open_box: AsyncOpen, burst: Burst) -> list[Times]:
    gate = asyncio.Barrier(burst.sandboxes)
    aborts: list[asyncio.Task[None]] = []

    def abort() -> None:
        aborts.append(asyncio.ensure_future(gate.abort()))

    episodes = (_episode(open_box, burst, gate.wait, abort, asyncio.sleep) for _ in range(burst.sandboxes))
    return _whole(await asyncio.gather(*episodes))


class _Inline:
    """A blocking sandbox in the clothes of one with coroutines: they never wait."""

    def __init__(self, box: Box) -> None:
        self._box = box

    async def run(self, command: str) -> str:
        return self._box.run(command)

    async def grade(self) -> bool:
        return self._box.grade()


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, without the cost of an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a blocking sandbox waited for an event loop")


def _whole(found: Sequence[Times | BaseException]) -> list[Times]:
    """All times, or the first error that is not only another one's echo."""
    errors = [one for one in found if isinstance(one, BaseException)]
    echoes = (threading.BrokenBarrierError, asyncio.BrokenBarrierError)
    for error in sorted(errors, key=lambda error: isinstance(error, echoes)):
        raise error
    return [one for one in found if isinstance(one, Times)]


async def _episode(
    open_box: AsyncOpen,
    burst: Burst,
    wait: Callable[[], Awaitable[Any]],
    abort: Callable[[], None],
    sleep: Callable[[float], Awaitable[None]],
) -> Times | BaseException:
    """One sandbox's life, in step with the others'."""
    times, questions = Times(), _questions()
    try:
        await wait()
        began = time.monotonic()
        async with open_box() as box:
            await _ask(box, questions)
            times.start.append((began, time.monotonic()))
            await wait()
            deadline = time.monotonic() + burst.seconds
            while len(times.command) < FEWEST or time.monotonic() < deadline:
                times.command.append(await _ask(box, questions))
            await wait()
            await sleep(random.uniform(0, 1) if burst.paced else 0)
            for _ in range(burst.paced):
                times.paced.append(await _ask(box, questions))
                await sleep(max(0.0, 1 - (times.paced[-1][1] - times.paced[-1][0])))
            await box.run(f"echo 42 >{ANSWER}")
            await wait()
            began = time.monotonic()
            assert await box.grade(), "the right answer did not pass"
            times.grade.append((began, time.monotonic()))
            await wait()
    except Exception as error:
        abort()
        return error
    return times


def _questions() -> Iterator[tuple[str, str]]:
    """Commands without a process of their own, so that it is the tool that is measured; and what they print."""
    for number in itertools.count(1):
        yield f"echo w$(({number} * 7))w", f"w{number * 7}w"


async def _ask(box: AsyncBox, questions: Iterator[tuple[str, str]]) -> tuple[float, float]:
    command, expected = next(questions)
    began = time.monotonic()
    said = await box.run(command)
    ended = time.monotonic()
    assert expected in said, f"{command!r} printed {said!r}"
    return began, ended


def steady_run(open_box: Open, steady: Steady) -> list[float]:
    """Seconds from the end of one episode to the first answer of the one that takes its place."""
    answered: list[float] = []
    ended: list[float] = []
    lengths = random.Random(1)
    workers = max(4, 2 * steady.slots)
    plan = [lengths.uniform(0.5, 1.5) * steady.seconds for _ in range(workers)]

    def work(seconds: float) -> None:
        questions = _questions()
        with open_box() as box:
            for number in range(max(1, round(seconds / PAUSE))):
                command, expected = next(questions)
                assert expected in box.run(command)
                if number == 0:
                    answered.append(time.monotonic())
                time.sleep(PAUSE)
            ended.append(time.monotonic())

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, plan))
    return [one - other for one, other in zip(sorted(answered)[steady.slots :], sorted(ended), strict=False)]


def seconds_of(all_times: Sequence[Times]) -> dict[str, Any]:
    """The answer to a burst: seconds of each kind, and commands per second."""
    answer: dict[str, Any] = {}
    for kind in ("start", "command", "paced", "grade"):
        spans = [span for times in all_times for span in getattr(times, kind)]
        answer[kind] = _sketch([end - began for began, end in spans])
        if kind == "command":
            answer["per_second"] = len(spans) / (max(end for _, end in spans) - min(began for began, _ in spans))
    return answer


def _sketch(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    if len(ordered) > KEPT:
        step = (len(ordered) - 1) / (KEPT - 1)
        ordered = [ordered[round(place * step)] for place in range(KEPT)]
    return [round(value, 6) for value in ordered]
