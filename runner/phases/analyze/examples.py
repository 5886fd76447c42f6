"""A few failed episodes that are worth reading, and that give nothing hidden away."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from runner.analysis.failures import FailureMode
from runner.domain.episode import Episode
from runner.domain.task import Task
from runner.phases.analyze.failures import Failed
from runner.phases.evaluate.dev import SOLVER
from runner.phases.evaluate.terminalbench import BENCH
from runner.phases.generate.leak import leaked_line
from runner.phases.generate.tasks import task_folder
from runner.report.data import Example
from runner.store.episodes import read_episodes
from runner.store.tasks import read_task

COUNT = 3


def choose(failed: Sequence[Failed], last: str, upstream: Mapping[str, Path]) -> list[Example]:
    """Up to three, of the recipe's last policy where it has failures, else of the solver: different modes first, then
    different tasks, short ones first. Episodes whose commands or outputs quote the hidden truth or test are left out.
    """
    wanted = [one for one in failed if one.source.key == last] or [one for one in failed if one.source.key == SOLVER]
    found: list[Example] = []
    for one in _ordered(wanted):
        if len(found) == COUNT:
            break
        task = _task(one, upstream)
        episode = _episode(one)
        if task is not None and episode is not None and not _gives_away(episode, task):
            found.append(
                Example(model=one.source.title, mode=one.mode.value, instruction=task.instruction, episode=episode)
            )
    return found


def _ordered(failed: Sequence[Failed]) -> Iterator[Failed]:
    """One of each mode, then the others."""
    left = sorted((one for one in failed if one.mode is not FailureMode.INFRA), key=_shortest)
    while left:
        modes, tasks, later = set[str](), set[str](), []
        for one in left:
            fresh = one.mode not in modes and one.task_id not in tasks
            if fresh:
                modes.add(one.mode)
                tasks.add(one.task_id)
                yield one
            else:
                later.append(one)
        left = later


def _shortest(one: Failed) -> tuple[int, str, int]:
    return one.turns, one.task_id, one.sample


def _task(one: Failed, upstream: Mapping[str, Path]) -> Task | None:
    if one.source.key.startswith(BENCH) or "generate" not in upstream:
        return None
    folder = task_folder(upstream["generate"], one.task_id)
    return read_task(folder) if folder.is_dir() else None


def _episode(one: Failed) -> Episode | None:
    found = (e for e in read_episodes(one.source.path) if (e.task_id, e.sample) == (one.task_id, one.sample))
    return next(found, None)


def _gives_away(episode: Episode, task: Task) -> bool:
    """Whether a line of the truth or of the final test stands in what a reader would see, and not in the task."""
    shown = "\n".join(f"{turn.command or ''}\n{turn.observation}" for turn in episode.turns)
    hidden = f"{task.truth}\n{task.final_test}\n{task.verifier_script}"
    secret = "\n".join(line for line in hidden.splitlines() if line.strip() and line.strip() not in task.instruction)
    return leaked_line(shown, secret) is not None
