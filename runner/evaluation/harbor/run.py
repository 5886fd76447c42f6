"""Run a job of Harbor's to its end, or go on with one, and read what came of it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from runner.domain.episode import Outcome
from runner.domain.errors import BudgetExceeded, EngineError, Incomplete, RecipeError
from runner.domain.plain import plain
from runner.evaluation.harbor.job import JOB, LOG, process_environment
from runner.evaluation.harbor.outcomes import SPENT, USERS
from runner.evaluation.harbor.program import engine_of, require_harbor, started
from runner.evaluation.harbor.request import SILENT, HarborRun
from runner.evaluation.harbor.results import Trial, commits, read_episodes, read_object, read_trials
from runner.evaluation.harbor.resume import prepare
from runner.llm.factory import check_model
from runner.llm.server_log import last_lines
from runner.schema import Provider
from runner.store.jsonl import storage_errors

TRIALS, EPISODES = "trials.jsonl", "episodes.jsonl"
_LOOK_SECONDS = 0.5
_TAIL_LINES = 15


@dataclass(frozen=True, kw_only=True)
class HarborResult:
    """What a job came to."""

    trials: tuple[Trial, ...]
    """By task and attempt."""
    files: tuple[Path, ...]
    """``trials.jsonl`` and, where the agent is ours, ``episodes.jsonl``."""

    @property
    def infra(self) -> int:
        """Trials without a score. They are tried again when the same job is run again."""
        return sum(trial.outcome is Outcome.INFRA for trial in self.trials)


def run_harbor(
    run: HarborRun, *, stop: Event | None = None, on_trials: Callable[[Sequence[Trial], int], None] | None = None
) -> HarborResult:
    """Run what is missing of a job; ``on_trials`` gets all finished trials at first and whenever there are new ones
    (their ``job`` tells them apart: attempts are numbered anew while some are still running), and how many are missing.

    Raises MissingRequirement (no Python with Harbor, no engine, no key), RecipeError (the job cannot be asked for, a
    half-done one is another, or the provider refuses our settings), EngineError (Harbor itself failed), BudgetExceeded,
    Incomplete (``stop`` was set, or trials are missing), StorageError and what ``on_trials`` raises.
    """
    run = replace(run, folder=run.folder.absolute())
    _check_model(run)
    env = process_environment(run)
    python, engine = require_harbor(run.bench.python, env), engine_of(run.bench.environment)
    words = prepare(run)
    job, told = run.folder / JOB, -1
    with started(python, words, env, job=job, engine=engine, log=run.folder / LOG) as process:
        while process.poll() is None:
            if stop is not None and stop.wait(_LOOK_SECONDS):
                raise Incomplete("the benchmark was stopped; run the same command again to go on")
            if stop is None:
                Event().wait(_LOOK_SECONDS)
            _check_commit(run, job)
            told = _look(job, told, on_trials)
    _look(job, told, on_trials)
    if process.returncode != 0:
        raise EngineError(f"Harbor ended with exit code {process.returncode}; {_last_words(run)}")
    return _collect(run, job)


def _check_model(run: HarborRun) -> None:
    if run.harness.agent in SILENT:
        return
    role = "eval.terminalbench"
    check_model(run.model, role, recipes=run.account.recipes)
    if run.model.provider is Provider.vllm and run.model.base_url is None:
        raise RecipeError(f"{role}: the model {run.model.name!r} has no base_url, and Harbor starts no server")


def _check_commit(run: HarborRun, job: Path) -> None:
    """Raises RecipeError as soon as a trial's task is from another commit than the recipe's."""
    wanted = run.bench.commit
    if wanted is None or run.bench.path is not None or "/" in run.bench.dataset or not job.is_dir():
        return
    others = sorted(commit for commit in commits(job) if not commit.startswith(wanted))
    if others:
        raise RecipeError(
            f"eval.terminalbench.commit is {wanted}, but {run.bench.dataset}@{run.bench.version} is at {others[0]} in "
            "Harbor's registry; take that commit, or give a folder at yours as eval.terminalbench.path"
        )


def _look(job: Path, known: int, on_trials: Callable[[Sequence[Trial], int], None] | None) -> int:
    """Hand out the finished trials when there are more than ``known``. Raises what all others will meet, too."""
    finished = len(list(job.glob("*/result.json")))
    if finished != known:
        trials = read_trials(job)
        if on_trials is not None:
            on_trials(trials, max(0, (_expected(job) or finished + 1) - finished))
        _check_errors(trials)
    return finished


def _check_errors(trials: Sequence[Trial]) -> None:
    """A key that the provider refuses, say: every other trial would end the same way."""
    for trial in trials:
        if trial.error.startswith(f"BudgetExceeded ({SPENT}): "):
            raise BudgetExceeded(trial.error.partition(": ")[2])
        if trial.error.startswith(USERS):
            raise RecipeError(f"the agent cannot work: {trial.error}")


def _expected(job: Path) -> int:
    """How many trials the job has; 0 while Harbor has not said so."""
    return int((read_object(job / "result.json") or {}).get("n_total_trials", 0))


def _collect(run: HarborRun, job: Path) -> HarborResult:
    trials = read_trials(job)
    expected = _expected(job)
    if not trials or len(trials) < expected:
        raise Incomplete(f"Harbor finished {len(trials)} of {expected} trials; {_last_words(run)}")
    files = [_write(run.folder / TRIALS, [plain(trial) for trial in trials])]
    if run.ours:
        files.append(_write(run.folder / EPISODES, [plain(one) for one in read_episodes(trials, run.folder)]))
    return HarborResult(trials=tuple(trials), files=tuple(files))


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    with storage_errors(path):
        partial = path.with_name(path.name + ".tmp")
        partial.write_bytes(text.encode("utf-8", "surrogatepass"))
        partial.replace(path)
    return path


def _last_words(run: HarborRun) -> str:
    path = run.folder / LOG
    lines = "\n".join(last_lines(path, _TAIL_LINES)) or "(nothing)"
    return f"the last lines of {path}:\n{lines}"
