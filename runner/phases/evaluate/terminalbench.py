"""Scores on a published benchmark, or any folder of Harbor tasks: each model with each harness is a job of Harbor's."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runner.domain.errors import Incomplete
from runner.evaluation.harbor import HarborRun, Trial, run_harbor
from runner.llm.account import Account
from runner.llm.base import Usage
from runner.llm.pricing import cost, price_of
from runner.phases.base import Context
from runner.phases.evaluate.candidates import Candidate, Kind, policies
from runner.schema import Model
from runner.schema_evaluation import Harness, TerminalBench

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
                account = context.resources.account
                account = account.with_free(served) if person.is_policy else account
                for harness, folder in todo:
                    _run(context, _job(context, bench, harness, served, account, folder))
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


def _job(
    context: Context, bench: TerminalBench, harness: Harness, served: Model, account: Account, folder: Path
) -> HarborRun:
    config = context.config
    return HarborRun(
        bench=bench,
        harness=harness,
        model=served,
        folder=folder,
        agent=config.agent,
        output_bytes=config.sandbox.output_bytes,
        account=account,
        retries=config.executor.infra_retries,
    )


def _run(context: Context, run: HarborRun) -> None:
    label = f"{run.folder.parent.name}/{run.folder.name}"
    result = run_harbor(run, stop=context.stop, on_trials=_teller(context, run, label))
    if result.infra > context.config.executor.infra_share * len(result.trials):
        (run.folder / TRIALS).unlink()
        cause = next(trial.error for trial in result.trials if trial.reward is None)
        raise Incomplete(
            f"{result.infra} of {len(result.trials)} trials of {label} were lost to infrastructure trouble; run the "
            f"same command again to retry them. The first: {cause}"
        )


def _teller(context: Context, run: HarborRun, label: str) -> Callable[[Sequence[Trial], int], None]:
    """Tells the console, the tracker and the ledger of trials that were not there before."""
    told: set[str] = set()

    def tell(trials: Sequence[Trial], missing: int) -> None:
        for trial in trials:
            if trial.job not in told:  # attempts are numbered anew while some still run
                told.add(trial.job)
                _book(context, run, trial, f"harbor/{label}/{trial.job}")
                context.watcher.advance("evaluate", trial.outcome, f"{label} {trial.outcome.value}")
        if missing and run.asks_unseen:
            context.resources.check_budget()

    return tell


def _book(context: Context, run: HarborRun, trial: Trial, slot: str) -> None:
    """What one of Harbor's own agents has asked, which is known once its trial is over."""
    if run.asks_unseen and trial.usage != Usage():
        price = price_of(run.model, run.account.prices)
        context.resources.book(slot, run.model.name, trial.usage, cost(price, trial.usage), trial.turns or 1)
