"""Scores on a published benchmark, or any folder of Harbor tasks: each model with each harness is a job of Harbor's."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner.domain.errors import Incomplete
from runner.evaluation.harbor import HarborRun, Trial, run_harbor
from runner.phases.base import Context
from runner.phases.evaluate.candidates import Candidate, Kind, policies
from runner.schema import Model
from runner.schema_evaluation import Harness, TerminalBench
from runner.share import share_dir

BENCH, TRIALS = "terminalbench", "trials.jsonl"


def evaluate_terminalbench(context: Context, bench: TerminalBench) -> None:
    """Run what is missing, model by model, each served once for all its harnesses.

    Raises what ``run_harbor`` raises, and Incomplete when infrastructure kept too many trials from a score.
    """
    context.watcher.begin("evaluate", 0, 0)  # Harbor alone knows how many tasks there are
    others = [Candidate(name=name, kind=Kind.OTHER, model=model) for name, model in bench.models.items()]
    for person in [*policies(context, bench.policies, checkpoints=False), *others]:
        todo = [(harness, folder) for harness, folder in jobs(context.folder, person.name, bench) if _is_open(folder)]
        if todo:
            with context.resources.serve(person.model, _role(person)) as served:
                for harness, folder in todo:
                    _run(context, bench, harness, served, folder)
    context.watcher.end("evaluate")


def jobs(folder: Path, model: str, bench: TerminalBench) -> Iterator[tuple[Harness, Path]]:
    """A model's harnesses and their folders; a harness that is there twice is told apart by its place."""
    seen: Counter[str] = Counter()
    for harness in bench.harnesses:
        seen[harness.agent] += 1
        suffix = f"-{seen[harness.agent]}" if seen[harness.agent] > 1 else ""
        yield harness, folder / BENCH / model / f"{harness.agent}{suffix}"


def _is_open(folder: Path) -> bool:
    return not (folder / TRIALS).exists()


def _role(person: Candidate) -> str:
    section = "policies" if person.is_policy else "models"
    return f"eval.terminalbench.{section}.{person.name}"


def _run(context: Context, bench: TerminalBench, harness: Harness, served: Model, folder: Path) -> None:
    config = context.config
    label = f"{folder.parent.name}/{folder.name}"
    run = HarborRun(
        bench=bench,
        harness=harness,
        model=served,
        folder=folder,
        agent=config.agent,
        output_bytes=config.sandbox.output_bytes,
        prices=config.prices,
        retries=config.executor.infra_retries,
        recipes=share_dir("recipes"),
    )
    result = run_harbor(run, stop=context.stop, on_trials=_teller(context, label))
    if result.infra > config.executor.infra_share * len(result.trials):
        (folder / TRIALS).unlink()
        cause = next(trial.error for trial in result.trials if trial.reward is None)
        raise Incomplete(
            f"{result.infra} of {len(result.trials)} trials of {label} were lost to infrastructure trouble; run the "
            f"same command again to retry them. The first: {cause}"
        )


def _teller(context: Context, label: str) -> Callable[[Sequence[Trial]], None]:
    """Tells the console and the tracker of trials that were not there before."""
    told: set[str] = set()

    def tell(trials: Sequence[Trial]) -> None:
        for trial in trials:
            if trial.job not in told:  # attempts are numbered anew while some still run
                told.add(trial.job)
                context.watcher.advance("evaluate", trial.outcome, f"{label} {trial.outcome.value}")

    return tell
