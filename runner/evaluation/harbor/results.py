"""Harbor's own result files as trials: what each attempt at a task came to.

A trial's ``result.json`` is read as Harbor wrote it, for every trial of a job; its printed table leaves out what it
could not count.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from runner.domain.episode import EndReason, Episode, Outcome
from runner.evaluation.harbor import outcomes
from runner.llm.base import Usage
from runner.store.episodes import episode_of

RESULT = "result.json"
EPISODE = "agent/endless-episode.json"
"""What our agent writes, in a trial's folder."""
VERIFIER_LOG = "verifier/test-stdout.txt"
PASSED = 1.0
"""A reward from which a task is solved. Partial rewards below are failures."""
MESSAGE_CHARS = 500
VERDICT_CHARS = 2000


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One attempt at one task: a row of ``trials.jsonl``."""

    task: str
    attempt: int
    """From 0, in the order in which the attempts at this task began."""
    outcome: Outcome
    reward: float | None
    """The verifier's word; None where there is no score."""
    error: str
    """Harbor's exception with its meaning; empty where there was none."""
    seconds: float
    """The agent's time; 0 where it never started."""
    turns: int | None
    """Replies of the model, where the agent says how many."""
    usage: Usage
    """Tokens, as far as the agent counts them."""
    job: str
    """Harbor's own file, relative to the folder of ``trials.jsonl``."""


def read_trials(job: Path) -> list[Trial]:
    """Every finished trial of a job's folder, by task and attempt. A file that is not whole is not finished."""
    found = [(_began(raw), path, raw) for path, raw in _results(job)]
    attempts: Counter[str] = Counter()
    trials = []
    for _, path, raw in sorted(found, key=lambda one: (one[0], one[1])):
        task = _task(raw)
        trials.append(_trial(raw, attempts[task], str(path.relative_to(job.parent))))
        attempts[task] += 1
    return sorted(trials, key=lambda trial: (trial.task, trial.attempt))


def read_episodes(trials: Sequence[Trial], folder: Path) -> Iterator[Episode]:
    """The episodes of our own agent, graded; an attempt that never got so far is an infra episode without turns.

    ``folder`` is the one that the trials' files are relative to. Raises StorageError.
    """
    for trial in trials:
        place = (folder / trial.job).parent
        row = read_object(place / EPISODE)
        played = episode_of(row) if row is not None else _unplayed(trial)
        yield replace(
            played,
            task_id=trial.task,
            sample=trial.attempt,
            outcome=trial.outcome,
            end=EndReason.INFRA if trial.outcome is Outcome.INFRA else played.end,
            verdict=trial.error or _tail(place / VERIFIER_LOG),
        )


def commits(job: Path) -> set[str]:
    """The git commits of the tasks that a job's trials are about, as far as they come from a repository."""
    configs = [read_object(path) for path in sorted(job.glob("*/config.json"))]
    found = {_of(config, "task", "git_commit_id") for config in configs if config is not None}
    return {commit for commit in found if isinstance(commit, str)}


def _results(job: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(job.glob(f"*/{RESULT}")):
        raw = read_object(path)
        if raw is not None and "task_name" in raw:
            yield path, raw


def _trial(raw: Mapping[str, Any], attempt: int, job: str) -> Trial:
    reward = _reward(raw)
    outcome, error = _judge(reward, _exceptions(raw))
    return Trial(
        task=_task(raw),
        attempt=attempt,
        outcome=outcome,
        reward=None if outcome is Outcome.INFRA else reward,
        error=error,
        seconds=round(_seconds(raw.get("agent_execution")), 3),
        turns=_turns(raw),
        usage=_usage(raw),
        job=job,
    )


def _exceptions(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Name and message of what was raised in a trial; tasks of several steps keep some with their steps."""
    infos = [raw.get("exception_info"), *(_of(step, "exception_info") for step in raw.get("step_results") or ())]
    return [
        (str(info.get("exception_type")), str(info.get("exception_message") or ""))
        for info in infos
        if isinstance(info, Mapping)
    ]


def _judge(reward: float | None, exceptions: Sequence[tuple[str, str]]) -> tuple[Outcome, str]:
    error = "; ".join(_error(name, message) for name, message in exceptions)
    if not all(outcomes.counts(name) for name, _ in exceptions):
        return Outcome.INFRA, error
    if reward is None:
        return Outcome.INFRA, "; ".join(filter(None, [error, "there is no reward"]))
    return (Outcome.PASS if reward >= PASSED else Outcome.FAIL), error


def _error(exception: str, message: str) -> str:
    said = " ".join(message.split())[:MESSAGE_CHARS]
    return f"{exception} ({outcomes.reason(exception)})" + (f": {said}" if said else "")


def _reward(raw: Mapping[str, Any]) -> float | None:
    """The reward called ``reward``, or the only one there is."""
    rewards = _of(raw, "verifier_result", "rewards")
    if not isinstance(rewards, Mapping):
        return None
    value = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
    return float(value) if isinstance(value, int | float) else None


def _turns(raw: Mapping[str, Any]) -> int | None:
    """Our agent counts its turns, terminus-2 its episodes, as it calls them."""
    metadata = _of(raw, "agent_result", "metadata")
    if not isinstance(metadata, Mapping):
        return None
    found = metadata.get("turns", metadata.get("n_episodes"))
    return found if isinstance(found, int) else None


def _usage(raw: Mapping[str, Any]) -> Usage:
    found = (_of(raw, "agent_result", f"n_{name}_tokens") for name in ("input", "output", "cache"))
    read, written, cached = (value if isinstance(value, int) else 0 for value in found)
    return Usage(input_tokens=read, output_tokens=written, cached_tokens=cached)


def _task(raw: Mapping[str, Any]) -> str:
    return str(raw["task_name"])


def _began(raw: Mapping[str, Any]) -> str:
    return str(raw.get("started_at") or "")


def _seconds(timing: Any) -> float:
    try:
        began, ended = (datetime.fromisoformat(timing[key]) for key in ("started_at", "finished_at"))
    except (KeyError, TypeError, ValueError):
        return 0.0
    return (ended - began).total_seconds()


def _unplayed(trial: Trial) -> Episode:
    return Episode(task_id=trial.task, sample=trial.attempt, outcome=Outcome.INFRA, end=EndReason.INFRA)


def _of(raw: Mapping[str, Any], *names: str) -> Any:
    value: Any = raw
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def read_object(path: Path) -> dict[str, Any] | None:
    """A file's JSON object; None where there is no whole one."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def _tail(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")[-VERDICT_CHARS:]
    except OSError:
        return ""
