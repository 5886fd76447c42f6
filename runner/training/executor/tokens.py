"""An episode as the trainer sees it: token ids, which of them the policy sampled, and with which probability.

Ids are only ever appended. What was sampled stays exactly as it was sampled; text never becomes tokens again. An
observation is appended together with the reply to it, so a trajectory always ends with a sampled token.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Trajectory:
    """The tokens of one episode, at most ``limit`` of them."""

    prompt: Sequence[int]
    limit: int
    """The context: prompt, observations and replies together."""
    measured: bool = False
    """Whether the engine reports log-probabilities."""
    ids: list[int] = field(init=False)
    actions: list[tuple[int, int]] = field(init=False, default_factory=list)
    """Half-open ranges of sampled tokens, in order, none empty, none overlapping."""
    log_probs: list[float] | None = field(init=False)
    """One a token: the sampling log-probability of actions, 0.0 elsewhere. None unless ``measured``."""

    def __post_init__(self) -> None:
        self.ids = list(self.prompt)
        self.log_probs = [0.0] * len(self.ids) if self.measured else None

    def room(self, observation: Sequence[int]) -> int:
        """How many tokens may still be sampled after this observation; negative when it does not fit itself."""
        return self.limit - len(self.ids) - len(observation)

    def observe(self, observation: Sequence[int]) -> None:
        """Append what the policy did not write."""
        self._append(observation, [0.0] * len(observation))

    def act(self, sampled: Sequence[int], log_probs: Sequence[float] | None) -> None:
        """Append what the policy wrote. Raises ValueError when the probabilities are not one a token."""
        if self.measured and (log_probs is None or len(log_probs) != len(sampled)):
            raise ValueError("the engine did not report one log-probability for each sampled token")
        start = len(self.ids)
        self._append(sampled, log_probs or ())
        if sampled:
            self.actions.append((start, len(self.ids)))

    @property
    def sampled(self) -> list[int]:
        """All action tokens, in order."""
        return [token for start, end in self.actions for token in self.ids[start:end]]

    def _append(self, tokens: Sequence[int], log_probs: Sequence[float]) -> None:
        self.ids += tokens
        if self.log_probs is not None:
            self.log_probs += log_probs
        assert len(self.ids) <= self.limit, "a trajectory longer than its context"
