"""What every episode reports to the trainer's log: the same numbers from each, whatever became of it.

They reach TensorBoard as ``train/<name>``, averaged over a step's episodes. A masked episode has none of its own but
``MASKED`` and ``INFRA_RETRIES``: for the others ``runner/training/patches`` gives it the mean of the step's other
episodes, so that the averages are those of the episodes that count.
"""

from collections import Counter
from collections.abc import Sequence

from runner.domain.episode import EndReason, Episode, Outcome

MASKED = "masked"
"""1 when infrastructure kept the episode from ending: it is no part of the learning signal."""
INFRA_RETRIES = "infra_retries"
"""Times the episode was begun again."""
ENDS: dict[EndReason, str] = {reason: f"end_{reason.value}" for reason in EndReason if reason is not EndReason.INFRA}
"""One-hot: why the agent stopped. All 0 for a masked episode."""
KEYS = (
    "passed",  # 1 when the hidden tests passed, whether or not the reward also needs ``done``
    "turns",
    "invalid_actions",  # replies that held no single action
    "action_tokens",  # sampled tokens; OpenRLHF's response_length also counts the observations between them
    "repeated",  # 1 when the sampled tokens are one token over and over
    "seconds",  # wall-clock from the trainer's request to the answer; the sum of the next four
    "seconds_model",
    "seconds_shell",
    "seconds_grading",  # and closing the sandbox
    "seconds_waiting",  # all else: for a place, for the sandbox to open, for tries that infrastructure spoiled
    INFRA_RETRIES,
    MASKED,
    *ENDS.values(),
)

_REPEATED_SHARE = 0.95
_REPEATED_TOKENS = 16
"""An episode of fewer sampled tokens says nothing about repetition."""


def logs_of(
    episode: Episode, sampled: Sequence[int], *, seconds: float, grading_seconds: float, retries: int
) -> dict[str, float]:
    """The numbers of one episode; ``sampled`` are its action tokens. Always all of ``KEYS``."""
    model = sum(turn.model_seconds for turn in episode.turns)
    shell = sum(turn.command_seconds for turn in episode.turns)
    return dict.fromkeys(KEYS, 0.0) | {
        "passed": float(episode.outcome is Outcome.PASS),
        "turns": float(len(episode.turns)),
        "invalid_actions": float(sum(bool(turn.invalid) for turn in episode.turns)),
        "action_tokens": float(len(sampled)),
        "repeated": float(is_repeated(sampled)),
        "seconds": seconds,
        "seconds_model": model,
        "seconds_shell": shell,
        "seconds_grading": grading_seconds,
        "seconds_waiting": max(0.0, seconds - model - shell - grading_seconds),
        INFRA_RETRIES: float(retries),
        ENDS[episode.end]: 1.0,
    }


def masked_logs(*, seconds: float, retries: int) -> dict[str, float]:
    """The numbers of an episode that infrastructure kept from ending. Always all of ``KEYS``."""
    known = {"seconds": seconds, "seconds_waiting": seconds, INFRA_RETRIES: float(retries), MASKED: 1.0}
    return dict.fromkeys(KEYS, 0.0) | known


def is_repeated(tokens: Sequence[int]) -> bool:
    """Whether nearly all of these tokens are the same one."""
    if len(tokens) < _REPEATED_TOKENS:
        return False
    ((_, most),) = Counter(tokens).most_common(1)
    return most >= _REPEATED_SHARE * len(tokens)
