"""The folders of finished phases, made up: draws, tasks, episodes, scores, training. What phases after them read."""

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.domain.plain import plain
from runner.domain.task import Environment, Task
from runner.phases.base import Context, Spend
from runner.phases.evaluate.scores import best, compare, score
from runner.phases.filter.phase import FilterPhase
from runner.phases.filter.report import EPISODES, TASKS
from runner.phases.generate.draw import DrawRecord
from runner.phases.generate.reasons import Reason
from runner.phases.generate.tasks import RECORDS, task_folder
from runner.phases.play import Book
from runner.phases.summary import facts_of
from runner.schema import Config
from runner.store.jsonl import write_json, write_rows
from runner.store.tasks import write_task
from runner.tracking.base import PhaseReport

LABELS = {
    "category": ("log analysis", "backup and archiving", "text processing", "database operations"),
    "complexity": ("2-3 commands", "5-10 commands"),
}
TRUTH = "the total must be 48151623 in the last line"
FINAL_TEST = "def test_total():\n    assert open('/home/user/total.txt').read() == 'forty-two thousand'\n"


def turn(command: str, output: str = "ok", exit_code: int = 0) -> Turn:
    """A command that ran."""
    said = f"Exit code: {exit_code}\nWorking directory: /home/user\nOutput:\n{output}"
    return Turn(
        reply=f"<command>{command}</command>",
        command=command,
        observation=said,
        exit_code=exit_code,
        input_tokens=900,
        output_tokens=40,
    )


DONE = Turn(reply="<action>done</action>", input_tokens=1000, output_tokens=8)


def episode(task: str, sample: int, kind: str) -> Episode:
    """One of: pass, wrong, loop, turns, invalid, infra."""
    failing = [turn("ls /nowhere", "ls: cannot access '/nowhere'", 2)]
    if kind == "loop":
        turns, end = tuple(turn("cat status.json", "paused") for _ in range(16)), EndReason.TURN_LIMIT
    elif kind == "turns":
        turns, end = tuple(turn(f"echo {n} >> notes", f"{n}") for n in range(16)), EndReason.TURN_LIMIT
    elif kind == "invalid":
        turns, end = tuple(Turn(reply="hm", invalid="no <command>") for _ in range(3)), EndReason.INVALID_OUTPUT
    elif kind == "infra":
        turns, end = (), EndReason.INFRA
    else:
        turns, end = (turn("ls -la"), *failing, turn("ls"), turn(f"echo {sample} > total.txt"), DONE), EndReason.DONE
    outcome = {"pass": Outcome.PASS, "infra": Outcome.INFRA}.get(kind, Outcome.FAIL)
    verdict = f"{FINAL_TEST}\nE   assert 1 == 2\n1 failed, 2 passed" if outcome is Outcome.FAIL else ""
    return Episode(
        task_id=task, sample=sample, outcome=outcome, end=end, turns=turns, verdict=verdict, seconds=10.0 + sample
    )


KINDS = ("wrong", "loop", "turns", "invalid")


@dataclass
class Finished:
    """Phases of a run, each in ``root/<phase>/<fingerprint>``."""

    root: Path
    config: Config
    draws: int = 12
    upstream: dict[str, Path] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    instruction: str = "Write the total of /home/user/numbers.txt to total.txt."

    def __post_init__(self) -> None:
        self._dice = random.Random(7)
        self.tasks: list[str] = []

    def sibling(self, config: Config, fingerprints: Mapping[str, str]) -> "Finished":
        """Another run that shares this one's tasks, as far as they are made."""
        other = Finished(self.root, config, draws=self.draws, fingerprints=fingerprints)
        other.upstream, other.tasks = {"generate": self.upstream["generate"]}, self.tasks
        return other

    def _folder(self, phase: str) -> Path:
        folder = self.root / phase / self.fingerprints.get(phase, f"{len(phase):016x}")
        folder.mkdir(parents=True)
        write_json(folder / "phase.json", {"phase": phase, "upstream": dict.fromkeys(self.upstream, "f" * 16)})
        write_json(folder / "attempts.json", {"seconds": 41.5, "sandbox": "local"})
        self.upstream[phase] = folder
        return folder

    def generate(self) -> "Finished":
        """Draws, of which the last three did not become tasks."""
        folder, rows = self._folder("generate"), []
        lost = (Reason.LEAK, Reason.BUILD_FAILED, Reason.NEAR_DUPLICATE)
        for index in range(self.draws):
            reason = lost[index - self.draws + 3] if index >= self.draws - 3 else Reason.KEPT
            labels = {name: values[index % len(values)] for name, values in LABELS.items()}
            task_id = f"{index:06d}-ab12cd34" if reason is Reason.KEPT else ""
            record = DrawRecord(
                draw=index, labels=labels, reason=reason, task_id=task_id, rounds={}, spend=Spend(calls=3), seconds=1.0
            )
            rows.append(plain(record))
            if task_id:
                write_task(task_folder(folder, task_id), self._task(task_id, labels))
                self.tasks.append(task_id)
        write_rows(folder / RECORDS, rows)
        return self

    def _task(self, task_id: str, labels: Mapping[str, str]) -> Task:
        return Task(
            id=task_id,
            instruction=self.instruction,
            environment=Environment(setup="true"),
            final_test=FINAL_TEST,
            truth=TRUTH,
            labels=labels,
        )

    def _play(self, path: Path, tasks: Sequence[str], samples: int, chance: float) -> Book:
        """Episodes of which about ``chance`` pass; easier tasks first."""
        rows = []
        for place, task in enumerate(tasks):
            odds = min(1.0, max(0.0, chance + 0.6 * (0.5 - place / max(1, len(tasks) - 1))))
            for sample in range(samples):
                kind = "pass" if self._dice.random() < odds else self._dice.choice(KINDS)
                rows.append(plain(episode(task, sample, kind)))
        write_rows(path, rows)
        return Book.read(path)

    def filter(self, chance: float = 0.5) -> "Finished":
        """The solver's episodes, judged as the phase itself does."""
        folder = self._folder("filter")
        book = self._play(folder / EPISODES, self.tasks, self.config.filter.n, chance)
        folders = [task_folder(self.upstream["generate"], task) for task in self.tasks]
        write_rows(folder / TASKS, FilterPhase()._judge(self.config, folders, book))
        return self

    def dataset(self) -> "Finished":
        folder = self._folder("dataset")
        write_json(folder / "split.json", {"train": self.tasks[2:], "dev": self.tasks[:2], "refused": []})
        return self

    def trained(self, phase: str, steps: int = 40) -> "Finished":
        """A training that went well."""
        folder, rows = self._folder(phase), []
        tags = {"train/gpt_loss": lambda t: 2.0 / (1 + t)} if phase == "sft" else _PPO
        for step in range(1, steps + 1):
            for tag, curve in tags.items():
                value = curve(step / steps) * self._dice.uniform(0.9, 1.1)
                rows.append({"tag": tag, "step": step, "value": value, "time": 0.0})
        write_rows(folder / "figures.jsonl", rows)
        deviations = ["ppo.normalize_rewards: normalised rewards -> rewards stay 0 and 1"] if phase == "ppo" else []
        write_json(folder / "command.json", {"command": "", "env": {}, "notes": [], "deviations": deviations})
        return self

    def evaluate(self, chances: Mapping[str, float]) -> "Finished":
        """Dev scores of models by name; ``solver`` has no episodes of its own there."""
        folder, samples = self._folder("evaluate"), 8
        labels = {
            task: {name: values[place % len(values)] for name, values in LABELS.items()}
            for place, task in enumerate(self.tasks)
        }
        facts = {}
        for name, chance in chances.items():
            book = self._play(folder / "dev" / name / "episodes.jsonl", self.tasks, samples, chance)
            facts[name] = [one for found in book.facts.values() for one in found.values()]
        models = {name: score(found, labels, samples=samples, level=0.95, seed=0) for name, found in facts.items()}
        names = list(models)
        pairs = [compare(a, b, models, level=0.95, seed=0) for a, b in pairwise(names)]
        scores = {"split": "dev", "confidence": 0.95, "models": models, "pairs": pairs, "best": best(models, names)}
        write_json(folder / "dev" / "scores.json", scores)
        write_json(folder / "models.json", [{"name": n, "kind": "ppo", "model": "/m", "step": None} for n in names])
        return self

    def terminalbench(self, models: Sequence[str], harness: str = "endless") -> "Finished":
        """Trials of twenty tasks, and of our agent the episodes."""
        for model in models:
            folder = self.upstream["evaluate"] / "terminalbench" / model / harness
            episodes = [
                episode(
                    f"bench-{task:02d}", n, "infra" if task == 0 and n == 0 else self._dice.choice(("pass", *KINDS))
                )
                for task in range(20)
                for n in range(5)
            ]
            write_rows(folder / "episodes.jsonl", map(plain, episodes))
            write_rows(folder / "trials.jsonl", map(_trial, episodes))
        return self

    def context(self, folder: Path) -> Context:
        """What a phase after these is run with."""
        folder.mkdir(parents=True, exist_ok=True)
        return Context(
            config=self.config,
            folder=folder,
            upstream=self.upstream,
            resources=None,  # type: ignore[arg-type]
            watcher=Silent(),
            stop=threading.Event(),
            cache=folder,
            run_label="made-up-12345678",
        )


_PPO = {
    "train/rollout/reward_mean": lambda t: 0.1 + 0.5 * t,
    "train/vllm_kl": lambda t: 0.002 + 0.004 * t,
    "train/rollout/response_length_mean": lambda t: 900 - 300 * t,
    "eval/eval_endless_pass1": lambda t: 0.1 + 0.4 * t,
    "train/entropy_loss": lambda t: 0.6 - 0.2 * t,
    "train/turns": lambda t: 9 - 3 * t,
}


class Silent:
    """A watcher that nobody looks at."""

    def begin(self, phase: str, total: int, done: int) -> None: ...

    def advance(self, phase: str, outcome: Outcome, label: str) -> None: ...

    def figures(self, phase: str, step: int, metrics: Mapping[str, float]) -> None: ...

    def end(self, phase: str) -> None: ...


def _trial(one: Episode) -> dict[str, object]:
    reward = None if one.outcome is Outcome.INFRA else float(one.outcome is Outcome.PASS)
    facts = facts_of(plain(one))
    row = {"task": one.task_id, "attempt": one.sample, "outcome": one.outcome.value, "reward": reward, "error": ""}
    return row | {"seconds": facts.seconds, "turns": facts.turns, "job": "result.json"}


def whole(root: Path, config: Config, **options: object) -> Finished:
    """Everything that a run can have."""
    made = Finished(root, config, **options)  # type: ignore[arg-type]
    made.generate().filter().dataset().trained("sft", 20).trained("ppo")
    made.evaluate({"base": 0.05, "sft": 0.25, "ppo@20": 0.4, "ppo": 0.6})
    return made.terminalbench(["base", "ppo"]).terminalbench(["ppo"], "terminus-2")


def analysed(made: Finished, folder: Path) -> PhaseReport:
    """Run the analysis on it."""
    from runner.phases.analyze.phase import AnalyzePhase

    phase = AnalyzePhase()
    phase.run(made.context(folder))
    return phase.report(made.config, folder, "a" * 16)
