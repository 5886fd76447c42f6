"""How much time and CPU the runner itself takes: the whole pipeline on a model that answers after a fixed time.

    python tests/benchmarks/pipeline.py [--sandbox null|docker|local] [--tasks 64] [--concurrency 16] [--latency 0.5]
        [--tracking off,sqlite] [--repeat 3] [key=value ...]

Each repetition is one ``endless run`` in a process and a folder of its own. Below the aim of 1.15 it is the models that
a run waits for, not us.

**Ideal time** is what no schedule can beat. Per phase it is latency * max(chain, ceil(calls / concurrency)), where
chain is the number of calls of one item that wait for each other: 3 for a draw (describe, environment, final test), 4
for an episode (its turns). The phases' ideals are summed, because filter starts when generate has judged its set as a
whole. **Pipeline time** is the whole command: interpreter start, imports, composing the recipe, all phases, tracking,
summary. **CPU** is user + system time of that process and the programs it started; the model's server is a process of
its own, and a container engine is nobody's child.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from tiny_tasks import TURNS

from runner.store.jsonl import read_lines

HERE = Path(__file__).resolve().parent
EPISODES = 2
"""Per task."""
CHAINS = {"generate": 3, "filter": TURNS}
STAGES = {"describe": "generate", "environment": "generate", "final": "generate", "solve": "filter"}
AIM = 1.15


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is measured."""

    sandbox: str
    tracking: str
    tasks: int
    concurrency: int
    latency: float
    overrides: tuple[str, ...] = ()

    @property
    def calls(self) -> dict[str, int]:
        """Phase -> model calls."""
        return {"generate": CHAINS["generate"] * self.tasks, "filter": CHAINS["filter"] * EPISODES * self.tasks}

    def ideal(self, phase: str) -> float:
        """Seconds that the phase's calls take at least."""
        return self.latency * max(CHAINS[phase], math.ceil(self.calls[phase] / self.concurrency))

    def words(self, address: str) -> list[str]:
        """The command's overrides."""
        model = {"base_url": address, "concurrency": self.concurrency}
        models = [f"models.{role}.{key}={value}" for role in ("generator", "solver") for key, value in model.items()]
        size = [f"generate.draws={self.tasks}", f"filter.n={EPISODES}"]
        places = [f'sandbox.backend="{self.sandbox}"', f"tracking={self.tracking}"]
        return [*models, *size, *places, *self.overrides]


@dataclass(frozen=True, kw_only=True)
class Result:
    """One command, measured."""

    load: Load
    seconds: float
    """The whole command."""
    cpu: float
    start: float
    """Seconds from the command's start to its first model call."""
    phases: dict[str, float]
    """Phase -> seconds from its first call to its last answer."""
    most_at_once: int

    @property
    def ratio(self) -> float:
        return self.seconds / sum(map(self.load.ideal, CHAINS))


def main() -> None:
    arguments = _arguments()
    screen = Console(width=120)
    results = []
    for tracking in arguments.tracking.split(","):
        load = Load(
            sandbox=arguments.sandbox,
            tracking=tracking,
            tasks=arguments.tasks,
            concurrency=arguments.concurrency,
            latency=arguments.latency,
            overrides=tuple(arguments.overrides),
        )
        found = [measure(load) for _ in range(arguments.repeat)]
        results.append(min(found, key=lambda result: result.seconds))
    screen.print(_table(results, arguments.repeat))


def measure(load: Load) -> Result:
    """Run the command once. Fails when it did not do exactly the work that the ideal is computed for."""
    with tempfile.TemporaryDirectory(prefix="endless-benchmark-") as folder, _model(load.latency) as model:
        words = [sys.executable, "-m", "runner.cli", "run", str(HERE / "recipe.yaml"), *load.words(model.address)]
        began = time.monotonic()
        cpu = command(words, Path(folder))
        seconds = time.monotonic() - began
        _check(load, Path(folder))
        seen = model.stop()
    return _result(load, began, seconds, cpu, seen)


def _result(load: Load, began: float, seconds: float, cpu: float, seen: dict[str, Any]) -> Result:
    came: dict[str, list[float]] = {phase: [] for phase in CHAINS}
    for stage, when in seen["calls"]:
        came[STAGES[stage]].append(when)
    assert {phase: len(times) for phase, times in came.items()} == load.calls, "the run made other calls than planned"
    return Result(
        load=load,
        seconds=seconds,
        cpu=cpu,
        start=min(came["generate"]) - began,
        phases={phase: max(times) + load.latency - min(times) for phase, times in came.items()},
        most_at_once=seen["most_at_once"],
    )


def command(words: Sequence[str], folder: Path) -> float:
    """Run a command to its end; its user and system seconds, those of the programs it waited for included."""
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(words, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        assert process.returncode == 0, output.read()
    return used.ru_utime + used.ru_stime


def _check(load: Load, folder: Path) -> None:
    (rows,) = folder.glob("outputs/store/filter/*/tasks.jsonl")
    passes = [row["passes"] for row in read_lines(rows)]
    assert passes == [EPISODES] * load.tasks, f"not every task was kept and solved: {passes}"


class _Model:
    """The model's server, from outside."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout
        self._process = process
        self._seen: dict[str, Any] = {}
        self.address = process.stdout.readline().strip()

    def stop(self) -> dict[str, Any]:
        """End it, by ending its standard input; what it saw. Idempotent."""
        if not self._seen:
            said, _ = self._process.communicate()
            self._seen = json.loads(said)
        return self._seen


@contextmanager
def _model(latency: float) -> Iterator[_Model]:
    words = [sys.executable, str(HERE / "model_server.py"), str(latency)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        model = _Model(process)
        try:
            yield model
        finally:
            model.stop()


def _table(results: Sequence[Result], repeat: int) -> Table:
    load = results[0].load
    sizes = f"{load.tasks} tasks, n = {EPISODES}, {sum(load.calls.values())} calls of {load.latency:g} s"
    title = f"{sizes}, {load.concurrency} at once; {os.cpu_count()} cores, best of {repeat}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("")
    for result in results:
        table.add_column(f"{load.sandbox}, tracking {result.load.tracking}", justify="right")
    for name, cells in _rows(results).items():
        table.add_row(name, *cells)
    return table


def _rows(results: Sequence[Result]) -> dict[str, list[str]]:
    phases = {
        f"  {phase}: first call to last answer / ideal": [
            f"{r.phases[phase]:.2f} / {r.load.ideal(phase):.2f} s = {r.phases[phase] / r.load.ideal(phase):.3f}"
            for r in results
        ]
        for phase in CHAINS
    }
    return {
        f"ratio: pipeline / ideal (aim: {AIM})": [f"{r.ratio:.3f}" for r in results],
        "pipeline time": [f"{r.seconds:.2f} s" for r in results],
        "ideal time": [f"{sum(map(r.load.ideal, CHAINS)):.2f} s" for r in results],
        **phases,
        "  before the first call": [f"{r.start:.2f} s" for r in results],
        "  all else (judging the last replies, dataset, tracking, exit)": [
            f"{r.seconds - r.start - sum(r.phases.values()):.2f} s" for r in results
        ],
        "runner's CPU": [f"{r.cpu:.2f} s" for r in results],
        "  per task": [f"{1000 * r.cpu / r.load.tasks:.0f} ms" for r in results],
        "  per call": [f"{1000 * r.cpu / sum(r.load.calls.values()):.1f} ms" for r in results],
        "calls in flight, at most": [str(r.most_at_once) for r in results],
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sandbox", default="null", choices=("null", "docker", "local"))
    parser.add_argument("--tracking", default="off,sqlite", help="options of the recipe's group, one column each")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--concurrency", type=int, default=16, help="model calls in flight at most")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of every model call")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each kind, of which the fastest counts")
    parser.add_argument("overrides", nargs="*", help="more of the recipe, such as sandbox.build_network=host")
    return parser.parse_args()


if __name__ == "__main__":
    main()
