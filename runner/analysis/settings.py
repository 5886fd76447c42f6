"""The thresholds of the failure analysis. All of them are ours: the paper publishes none.

They are chosen for episodes of about 16 turns and do not depend on the model, so that two runs stay comparable. What
each one means is told in ``runner/analysis/failures/__init__.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class AnalysisSettings:
    """Defaults, each with its reason."""

    loop_repeats: int = 3
    """A cycle of commands with the same results is a loop from so many rounds on. Two happen in good work: a look
    before and a look after. Detectors that stop a running agent commonly take 3 or 4."""
    loop_patience: int = 5
    """So many where repeating may make sense: it waits (``sleep``), or its failing commands differ in numbers.
    With the 3 of above an agent that polls as it was told to would be in a loop."""
    loop_cycle: int = 5
    """The longest cycle, in commands: a 16-turn episode has room for three rounds of five."""
    loop_share: float = 0.5
    """A loop that was left again explains the failure only when it took at least this share of the commands."""
    invalid_share: float = 0.5
    """An episode that did not end with done is a protocol error when so large a share of its replies was unusable."""
    diversity_window: int = 10
    """k: the commands after the first failed one that are looked at. Most 16-turn episodes have no more left."""
    top_commands: int = 20
    """Programs listed in a summary."""
