"""Command diversity after a failure: does an agent that meets an error try something else, or the same again?"""

from collections.abc import Sequence

from runner.analysis.failures.steps import Step

DEFINITION = (
    "The share of distinct commands, in their normal form, among the next k commands after the first failed command of "
    "an episode (fewer where the episode has fewer left); the mean over the episodes that have at least two such "
    "commands."
)
"""Stored beside every value."""

_LEAST = 2
"""One command is always distinct."""


def diversity(steps: Sequence[Step], window: int) -> float | None:
    """An episode's command diversity after its first failed command, in (0, 1], for ``DEFINITION``'s k = ``window``.

    None where no command failed or fewer than two followed.
    """
    first = next((index for index, step in enumerate(steps) if step.failed), len(steps))
    after = [step.command for step in steps[first + 1 : first + 1 + window]]
    return len(set(after)) / len(after) if len(after) >= _LEAST else None
