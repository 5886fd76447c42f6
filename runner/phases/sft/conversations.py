"""Passing episodes as chat conversations: what the policy learns to write is what the solver wrote."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from runner.domain.episode import Episode, Outcome
from runner.domain.task import Task
from runner.llm.base import Message

Opening = Callable[[Task], Sequence[Message]]
"""A task's system and first user message: the same that every episode begins with."""


def pick(episodes: Iterable[Episode], tasks: Mapping[str, Task], most: int | None) -> list[Episode]:
    """The passing episodes of these tasks, at most ``most`` of each: those with the fewest turns, the first first."""
    passing: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        if episode.outcome is Outcome.PASS and episode.task_id in tasks:
            passing[episode.task_id].append(episode)
    chosen = []
    for task in sorted(passing):
        ordered = sorted(passing[task], key=lambda episode: (len(episode.turns), episode.sample))
        chosen += ordered[:most]
    return chosen


def conversation(episode: Episode, opening: Sequence[Message]) -> dict[str, Any]:
    """One row for OpenRLHF: ``messages``, ending with the agent's last reply."""
    messages = [{"role": message.role, "content": message.content} for message in (*opening, *_turns(episode))]
    return {"messages": messages, "task": episode.task_id, "sample": episode.sample}


def _turns(episode: Episode) -> Iterator[Message]:
    for index, turn in enumerate(episode.turns):
        yield Message(role="assistant", content=turn.reply)
        if index < len(episode.turns) - 1:
            yield Message(role="user", content=turn.observation)
