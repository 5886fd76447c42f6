"""What the training phases share: compile, resume, train, tidy up, report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.domain.episode import Episode
from runner.phases.base import Context
from runner.phases.policy import model_ref
from runner.phases.work import Stopped
from runner.schema import Config
from runner.tracking.base import PhaseReport
from runner.training.checkpoints import drop_states, make_consistent, prune_exports
from runner.training.compile import Command, Facts
from runner.training.environment import require_compiler
from runner.training.errors import TrainerError
from runner.training.figures import read_points
from runner.training.figures.follow import Point
from runner.training.run import COMMAND, FIGURES, LOG, Job, read_record, train

Compile = Callable[[Config, Facts], Command]
_DEV = "ppo/dev/pass_at_1"


def run_training(
    context: Context,
    phase: str,
    facts: Facts,
    compile_it: Compile,
    *,
    check: Callable[[Sequence[Point]], None],
    env: Mapping[str, str] | None = None,
) -> None:
    """Train to the end, from the last checkpoint if there is one. ``check`` sees all steps so far and may raise.

    Raises TrainerError, Stopped, UserError, StorageError.
    """
    require_compiler(context.config)
    config, training = context.config, context.config.training
    done = make_consistent(facts.checkpoints) if facts.checkpoints.is_dir() else None
    command = compile_it(config, replace(facts, resume=done is not None))
    context.watcher.begin(phase, command.steps, done or 0)
    seen = read_points(context.folder / FIGURES, phase)
    for step, figures in seen:  # a killed run may not have told all that it knew; the tracker has no step twice
        context.watcher.figures(phase, step, figures)
    every = config.ppo.export_every if phase == "ppo" and config.ppo is not None else None

    def on_points(points: Sequence[Point]) -> None:
        seen.extend(points)
        for step, figures in points:
            context.watcher.figures(phase, step, figures)
        prune_exports(facts.checkpoints, keep=training.keep, every=every)
        check(seen)

    job = Job(
        phase=phase,
        config=config,
        command=command,
        folder=context.folder,
        cache=context.cache,
        env=env or {},
        on_points=on_points,
    )
    if not train(job, context.stop):
        raise Stopped("interrupted")
    if not (facts.output / "config.json").is_file():
        raise TrainerError(f"the trainer ended without a model in {facts.output}; see {context.folder / LOG}")
    drop_states(facts.checkpoints)
    context.watcher.end(phase)


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    """The versions it was trained with: ``endless.openrlhf``."""
    return {f"endless.{name}": version for name, version in record.get("versions", {}).items()}


def report(config: Config, phase: str, folder: Path, fingerprint: str, episodes: Sequence[Episode] = ()) -> PhaseReport:
    """Curves, the last step's figures and the best dev score, the command, and the model with its lineage."""
    points, record = read_points(folder / FIGURES, phase), read_record(folder)
    latest = {name: value for _, figures in points for name, value in figures.items()}
    dev = [figures[_DEV] for _, figures in points if _DEV in figures]
    best = {f"{_DEV}_best": max(dev)} if dev else {}
    return PhaseReport(
        phase=phase,
        fingerprint=fingerprint,
        folder=folder,
        metrics={**latest, **best, f"{phase}/steps": float(max((step for step, _ in points), default=0))},
        tables={"deviations": [{"deviation": text} for text in record["deviations"]]},
        artifacts=[path for path in (folder / COMMAND, folder / LOG) if path.exists()],
        episodes=episodes,
        tags={"endless.policy": config.training.policy} | _tags(record),
        curves=points,
        model=model_ref(config, phase, folder, fingerprint),
    )
