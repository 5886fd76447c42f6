"""How long the trainer's engine waits for sandboxes in a rollout: the real executor with an engine of fixed speed.

    PYTHONPATH=tests python tests/benchmarks/rollout.py [--backends docker,local] [--live 8,64,256] [--waves 4,4,2]
        [--tokens 150] [--speed 40] [key=value ...]

The engine writes every sequence at ``--speed`` tokens a second, however many there are, and needs no processor for it:
what a GPU does that is not full. An episode has six turns (look, read, count, check, search, done) of ``--tokens``
tokens on average, and is graded. A rollout has ``--waves`` times as many episodes as live ones. Images are built
before, as they are in a run, whose filter has built them. ``key=value`` sets a key of the recipe's ``sandbox``.

**ideal** is the rollout's time with sandboxes that take no time: the episodes' writing alone, each begun as soon as one
before it ends. **engine waits** is 1 - ideal / time: the share of the rollout in which sandboxes keep the engine from
what it could do. **idle** is the part of the rollout in which it has nothing to do at all.
"""

import argparse
import asyncio
import heapq
import os
import random
import resource
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from support.rollouts import WORDS, a_task, rollout, settings
from support.scripted import Reply, answer

from runner.domain.errors import MissingRequirement
from runner.domain.task import Task
from runner.schema import Agent, Sandbox
from runner.training.executor.worker import Worker

TASKS = 4
COMMANDS = (
    "ls -l",
    "head -3 {id}.txt",
    "wc -l < {id}.txt > {id}.out",
    "cat {id}.out",
    "grep -c a {id}.txt",
)
AGENT = Agent(max_turns=len(COMMANDS) + 1, episode_seconds=3600.0)
AIM = 0.1


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is measured."""

    sandbox: Sandbox
    live: int
    waves: int
    tokens: int
    speed: float

    @property
    def episodes(self) -> int:
        return self.live * self.waves


@dataclass(frozen=True, kw_only=True)
class Result:
    """One rollout, measured."""

    load: Load
    seconds: float
    ideal: float
    idle: float
    """Seconds in which the engine had no request."""
    cpu: float
    logs: list[dict[str, float]]
    average: float
    """The machine's load average afterwards."""

    @property
    def waits(self) -> float:
        return 1 - self.ideal / self.seconds

    def mean(self, name: str) -> float:
        return sum(logs[name] for logs in self.logs) / len(self.logs)


class Meter:
    """How many requests the engine has, over time."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._requests, self._since = 0, 0.0

    def begin(self) -> None:
        if self._requests == 0:
            self._since = time.monotonic()
        self._requests += 1

    def end(self) -> None:
        self._requests -= 1
        if self._requests == 0:
            self.busy += time.monotonic() - self._since


class SpeedEngine:
    """Writes one episode's script at a fixed speed."""

    def __init__(self, script: Sequence[Reply], speed: float, meter: Meter) -> None:
        self._replies = [[*WORDS.encode(reply.text), WORDS.eos_token_id] for reply in script]
        self._speed, self._meter = speed, meter
        self._turn = 0

    @property
    def seconds(self) -> float:
        """What the whole script takes."""
        return sum(map(len, self._replies)) / self._speed

    async def generate(self, prompt_token_ids: Sequence[int], sampling_params: Any) -> Any:
        tokens = self._replies[self._turn]
        self._turn += 1
        assert len(tokens) <= sampling_params.max_tokens
        self._meter.begin()
        try:
            await asyncio.sleep(len(tokens) / self._speed)
        finally:
            self._meter.end()
        return answer(WORDS, tokens, "stop", logprobs=sampling_params.logprobs)


def main() -> None:
    arguments = _arguments()
    results = []
    for backend in arguments.backends.split(","):
        for live, waves in zip(arguments.live.split(","), arguments.waves.split(","), strict=True):
            sandbox = replace(_plain(backend), **dict(map(_setting, arguments.overrides)))
            load = Load(
                sandbox=sandbox, live=int(live), waves=int(waves), tokens=arguments.tokens, speed=arguments.speed
            )
            try:
                results.append(measure(load))
            except MissingRequirement as error:
                raise SystemExit(str(error)) from error
            Console(width=120).print(_line(results[-1]))
    Console(width=160).print(_table(results))


def measure(load: Load) -> Result:
    """One rollout. Fails when an episode was not solved, or masked."""
    tasks = [a_task(f"count{n}") for n in range(TASKS)]
    with tempfile.TemporaryDirectory(prefix="endless-benchmark-") as folder:
        made = settings(Path(folder), tasks, sandbox=load.sandbox, agent=AGENT, live=load.live)
        cache = Path.home() / ".cache" / "endless-benchmarks" / "rollout"
        with closing(Worker(replace(made, cache=cache))) as worker:
            _build(worker, tasks)
            return asyncio.run(_measured(worker, load, tasks))


def _build(worker: Worker, tasks: Sequence[Task]) -> None:
    """Play one episode of each task: images, the grader's Python and imports are then there."""

    async def warm() -> None:
        meter = Meter()
        scripts = [script(task, 10, random.Random(0)) for task in tasks]
        pairs = zip(tasks, scripts, strict=True)
        await asyncio.gather(*(rollout(worker, task, SpeedEngine(one, 1e6, meter)) for task, one in pairs))

    asyncio.run(warm())


async def _measured(worker: Worker, load: Load, tasks: Sequence[Task]) -> Result:
    dice, meter = random.Random(0), Meter()
    chosen = [tasks[n % len(tasks)] for n in range(load.episodes)]
    engines = [SpeedEngine(script(task, load.tokens, dice), load.speed, meter) for task in chosen]
    cpu, began = _cpu(), time.monotonic()
    pairs = zip(chosen, engines, strict=True)
    got = await asyncio.gather(*(rollout(worker, task, engine) for task, engine in pairs))
    seconds = time.monotonic() - began
    assert all(one["reward"] == 1.0 and not one["extra_logs"]["masked"] for one in got), "an episode was not solved"
    return Result(
        load=load,
        seconds=seconds,
        ideal=makespan([engine.seconds for engine in engines], load.live),
        idle=seconds - meter.busy,
        cpu=_cpu() - cpu,
        logs=[one["extra_logs"] for one in got],
        average=os.getloadavg()[0],
    )


def script(task: Task, tokens: int, dice: random.Random) -> list[Reply]:
    """Six replies, each of half to one and a half times as many tokens."""
    actions = [f"<command>{command.format(id=task.id)}</command>" for command in COMMANDS]
    replies = []
    for action in [*actions, "<action>done</action>"]:
        length = round(tokens * dice.uniform(0.5, 1.5)) - len(WORDS.encode(action))
        replies.append(Reply(text=f"<think>{'on ' * max(0, length // 2 - 4)}</think>{action}"))
    return replies


def makespan(durations: Sequence[float], places: int) -> float:
    """How long these take in so many places, each begun in order as soon as a place is free."""
    ends = [0.0] * places
    for duration in durations:
        heapq.heapreplace(ends, ends[0] + duration)
    return max(ends)


def _cpu() -> float:
    """User and system seconds of this process and the programs it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _line(result: Result) -> str:
    load = result.load
    return f"{load.sandbox.backend}, {load.live} live: {result.seconds:.1f} s, the engine waits {result.waits:.1%}"


def _table(results: Sequence[Result]) -> Table:
    load = results[0].load
    title = f"replies of {load.tokens} tokens at {load.speed:g} a second, 6 turns; {os.cpu_count()} cores"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for result in results:
        table.add_column(f"{result.load.sandbox.backend}, {result.load.live} live", justify="right")
    for name, cell in _ROWS.items():
        table.add_row(name, *(cell(result) for result in results))
    return table


_ROWS = {
    "episodes": lambda r: str(r.load.episodes),
    "rollout": lambda r: f"{r.seconds:.1f} s",
    "ideal": lambda r: f"{r.ideal:.1f} s",
    f"engine waits (aim: {AIM:.0%})": lambda r: f"{r.waits:.1%}",
    "idle": lambda r: f"{r.idle / r.seconds:.1%}",
    "episodes a second": lambda r: f"{r.load.episodes / r.seconds:.2f}",
    "... that the engine could do": lambda r: f"{r.load.episodes / r.ideal:.2f}",
    "per episode, model": lambda r: f"{r.mean('seconds_model'):.1f} s",
    "... shell": lambda r: f"{r.mean('seconds_shell'):.2f} s",
    "... grading": lambda r: f"{r.mean('seconds_grading'):.2f} s",
    "begun again": lambda r: f"{r.mean('infra_retries') * r.load.episodes:.0f}",
    "CPU per episode": lambda r: f"{1000 * r.cpu / r.load.episodes:.0f} ms",
    "load average": lambda r: f"{r.average:.1f}",
}


def _plain(backend: str) -> Sandbox:
    """The null backend does not count its sandboxes, so the rollout's threads do."""
    return Sandbox(backend=backend, prestart=0) if backend == "null" else Sandbox(backend=backend)


def _setting(word: str) -> tuple[str, Any]:
    key, _, value = word.partition("=")
    return key, yaml.safe_load(value)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backends", default="docker,local")
    parser.add_argument("--live", default="8,64,256", help="live episodes, one column each")
    parser.add_argument("--waves", default="4,4,2", help="episodes for each live one")
    parser.add_argument("--tokens", type=int, default=150, help="of a reply, on average")
    parser.add_argument("--speed", type=float, default=40.0, help="tokens a second of every sequence")
    parser.add_argument("overrides", nargs="*", help="of the recipe's sandbox section, such as build_network=host")
    return parser.parse_args()


if __name__ == "__main__":
    main()
