"""Begin a job, or go on with a half-done one: Harbor resumes a job's folder, if that is in order."""

import logging
import shutil
from pathlib import Path
from typing import Any

from runner.domain.episode import Outcome
from runner.domain.errors import RecipeError
from runner.evaluation.harbor.job import CONFIG, JOB, SETTINGS, job_config, resume_words, run_words
from runner.evaluation.harbor.request import HarborRun
from runner.evaluation.harbor.results import read_object, read_trials
from runner.evaluation.harbor.settings import write_settings
from runner.store.jsonl import storage_errors, write_json

log = logging.getLogger(__name__)

_MAY_CHANGE = ("jobs_dir", "n_concurrent_trials", "retry", "quiet", "debug")
"""Keys of a job's config that a resumed job may have otherwise: no trial depends on them."""


def prepare(run: HarborRun) -> list[str]:
    """Write what Harbor reads; returns the words that begin the job, or go on with it.

    Raises RecipeError where a half-done job is another one, and StorageError.
    """
    with storage_errors(run.folder):
        run.folder.mkdir(parents=True, exist_ok=True)
    if run.ours:
        write_settings(run.folder / SETTINGS, run.settings())
    config, path = job_config(run), run.folder / CONFIG
    job = run.folder / JOB
    known = read_object(path)
    if known is not None and read_object(job / "config.json") is not None:
        if _kept(known) != _kept(config):
            raise RecipeError(f"{job} is a job that was begun with other settings ({path}); remove it to begin anew")
        for name in ("config.json", "lock.json"):
            _change(job / name, config)
        _forget(job)
        write_json(path, config)
        return resume_words(job)
    with storage_errors(job):
        shutil.rmtree(job, ignore_errors=True)
    write_json(path, config)
    return run_words(path)


def _kept(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _MAY_CHANGE}


def _change(path: Path, config: dict[str, Any]) -> None:
    """Let one of Harbor's own files say what may be changed."""
    theirs = read_object(path)
    if theirs is None:
        path.unlink(missing_ok=True)  # cut short; Harbor writes it anew
        return
    for name in _MAY_CHANGE:
        if name in config and name in theirs:
            new, old = config[name], theirs[name]
            theirs[name] = {**old, **new} if isinstance(new, dict) and isinstance(old, dict) else new
    write_json(path, theirs)


def _forget(job: Path) -> None:
    """Remove the trials that have no score, so that Harbor does them again, and a summary that was cut short."""
    for trial in read_trials(job):
        if trial.outcome is Outcome.INFRA:
            log.info("%s: attempt %d is tried again: %s", trial.task, trial.attempt, trial.error)
            shutil.rmtree((job.parent / trial.job).parent, ignore_errors=True)
    if (job / "result.json").is_file() and read_object(job / "result.json") is None:
        (job / "result.json").unlink()
    for result in job.glob("*/result.json"):
        if read_object(result) is None:
            shutil.rmtree(result.parent, ignore_errors=True)
