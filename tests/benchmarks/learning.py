"""Does it learn? ``recipes/tiny`` over several seeds: pass@1 on its training tasks before SFT, after it, and after PPO.

    python tests/benchmarks/learning.py [--seeds 0,1,2] [--samples 30] [--picture learning.png] [key=value ...]

A sweep of ``endless run`` in the current folder; what is done there already is not done again. Every figure is from the
evaluation's own files: our agent harness, real sandboxes, the hidden tests. Ten tasks with 30 attempts each give a
standard error of at most 2.9 points (independent attempts at 50 %).
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.compose import variants
from runner.pipeline.compile import compile_recipe
from runner.pipeline.layout import Outputs
from runner.report.figures.style import BLUE, GREY, bare, drawn, figure, titled
from runner.store.jsonl import read_lines

POLICIES = {"base": "random", "sft": "after SFT", "ppo": "after PPO"}


@dataclass(frozen=True, kw_only=True)
class Seed:
    """What one seed came to."""

    seed: int
    scores: dict[str, dict[str, Any]]
    """Policy -> its row of scores."""
    rewards: list[tuple[int, float]]
    """(step, mean reward of its rollout)."""
    seconds: dict[str, float]
    """Phase -> working time."""

    def rate(self, policy: str) -> float:
        return float(self.scores[policy]["pass_at"]["1"]["value"])

    def error(self, policy: str) -> float:
        """Standard error of ``rate``, attempts taken for independent."""
        rate, n = self.rate(policy), self.scores[policy]["episodes"]
        return math.sqrt(rate * (1 - rate) / n)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--picture", type=Path, default=Path("learning.png"))
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args()
    words = ["tiny", "-m", f"training.seed={given.seeds}", f"eval.dev.samples={given.samples}", *given.overrides]
    subprocess.run([sys.executable, "-m", "runner.cli", "run", *words], check=True)
    found = [read_seed(config) for config, _ in variants(words)]
    print("\n".join(table(found)))
    draw(found, given.picture)
    print(f"picture: {given.picture}")


def read_seed(config: Any) -> Seed:
    """One variant's results."""
    store = Outputs(Path(config.outputs).absolute()).store
    folders = {step.name: store.folder(step.name, step.fingerprint) for step in compile_recipe(config)}
    scores = json.loads((folders["evaluate"] / "dev" / "scores.json").read_text())["models"]
    rows = [row for row in read_lines(folders["ppo"] / "figures.jsonl") if row["tag"] == "train/reward"]
    times = {phase: json.loads((folders[phase] / "attempts.json").read_text())["seconds"] for phase in ("sft", "ppo")}
    rewards = sorted({row["step"]: row["value"] for row in rows}.items())
    return Seed(seed=config.training.seed, scores=scores, rewards=rewards, seconds=times)


def table(found: Sequence[Seed]) -> list[str]:
    """Markdown: a row a seed, and the mean."""
    lines = ["| seed | random | after SFT | after PPO | SFT / PPO, seconds |", "|---|---|---|---|---|"]
    for one in found:
        rates = [f"{100 * one.rate(name):.1f} ± {100 * one.error(name):.1f} %" for name in POLICIES]
        lines.append(f"| {one.seed} | {' | '.join(rates)} | {one.seconds['sft']:.0f} / {one.seconds['ppo']:.0f} |")
    means = [f"**{100 * sum(one.rate(name) for one in found) / len(found):.1f} %**" for name in POLICIES]
    return [*lines, f"| mean | {' | '.join(means)} | |"]


@drawn
def draw(found: Sequence[Seed], path: Path) -> None:
    """Rollout rewards of every seed over PPO's steps, and the scores before and after."""
    made, axes = figure(3.0)
    steps = max(step for one in found for step, _ in one.rewards)
    ends = {"base": -3.0, "sft": 0.0, "ppo": steps + 1.0}
    for one in found:
        axes.plot([step for step, _ in one.rewards], [100 * value for _, value in one.rewards], color=GREY, linewidth=1)
    for name, place in ends.items():
        rates = [100 * one.rate(name) for one in found]
        axes.plot([place] * len(rates), rates, "o", color=BLUE, markersize=5, alpha=0.75, clip_on=False)
        mean = sum(rates) / len(rates)
        axes.annotate(f"{mean:.0f} %", (place, max(rates)), (0, 7), textcoords="offset points", ha="center", color=BLUE)
    axes.set_ylim(0, 100)
    axes.set_xticks([*ends.values(), *range(4, steps, 4)])
    axes.set_xticklabels([*POLICIES.values(), *map(str, range(4, steps, 4))])
    axes.set_xlabel("PPO steps")
    bare(axes, grid="y")
    subtitle = "pass@1 in %, a seed each: dots are evaluations, lines are the rollouts of PPO"
    titled(axes, "A tiny policy learns ten terminal tasks on two CPU cores", subtitle)
    made.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
