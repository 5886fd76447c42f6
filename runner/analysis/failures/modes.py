"""One failure mode per failed episode: the first that holds, in the order in which they are listed here.

The order goes from what makes an episode say nothing about the agent, over what explains its end, to its end itself:
infrastructure first; then a protocol error and a loop, because the limit that such an episode runs into is how it
ended, not why; then the three limits, which exclude each other; and a wrong answer is what is left, an agent that said
it was done. Every failed episode has exactly one mode.
"""

from collections.abc import Sequence
from enum import StrEnum

from runner.analysis.failures.loops import find_loops
from runner.analysis.failures.steps import Step, steps
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import EndReason, Episode, Outcome


class FailureMode(StrEnum):
    """In order of precedence."""

    INFRA = "infra"
    """Infrastructure failed; the episode has no reward and is in no share."""

    PROTOCOL_ERROR = "protocol_error"
    """The episode ended because replies could not be used (``agent.max_invalid`` in a row), or it ran into a limit and
    at least ``invalid_share`` of its replies could not be used."""

    LOOP = "loop"
    """The agent repeated itself: a cycle of up to ``loop_cycle`` commands with the same results, ``loop_repeats`` times
    or more (``loop_patience`` where it waits or varies numbers), that the episode ran into its limit in; or that took
    at least ``loop_share`` of its commands, however the episode ended."""

    CONTEXT_FULL = "context_full"
    """The conversation had no room for another reply."""

    TIME_LIMIT = "time_limit"
    """The episode's wall-clock time was up."""

    TURN_LIMIT = "turn_limit"
    """All turns were used, none of them to say done."""

    WRONG_ANSWER = "wrong_answer"
    """The agent said done, and the verifier found the final state wrong."""


_LIMITS = {
    EndReason.CONTEXT_FULL: FailureMode.CONTEXT_FULL,
    EndReason.TIME_LIMIT: FailureMode.TIME_LIMIT,
    EndReason.TURN_LIMIT: FailureMode.TURN_LIMIT,
    EndReason.DONE: FailureMode.WRONG_ANSWER,
}


def classify(episode: Episode, settings: AnalysisSettings) -> FailureMode | None:
    """Why an episode failed; None for one that passed."""
    return classify_steps(episode, steps(episode), settings)


def classify_steps(episode: Episode, ran: Sequence[Step], settings: AnalysisSettings) -> FailureMode | None:
    """The same, for a caller who has the episode's steps already."""
    if episode.outcome is Outcome.PASS:
        return None
    if episode.outcome == Outcome.INFRA or episode.end is EndReason.INFRA:
        return FailureMode.INFRA
    if _is_protocol_error(episode, settings):
        return FailureMode.PROTOCOL_ERROR
    if _is_loop(episode, ran, settings):
        return FailureMode.LOOP
    return _LIMITS[episode.end]


def _is_protocol_error(episode: Episode, settings: AnalysisSettings) -> bool:
    if episode.end in (EndReason.INVALID_OUTPUT, EndReason.DONE):
        return episode.end is EndReason.INVALID_OUTPUT
    # An unusable reply is answered with a nudge; one that the provider cut off for want of context is not.
    unusable = sum(bool(turn.invalid and turn.observation) for turn in episode.turns)
    return unusable > 0 and unusable >= settings.invalid_share * len(episode.turns)


def _is_loop(episode: Episode, ran: Sequence[Step], settings: AnalysisSettings) -> bool:
    gave_up = episode.end is EndReason.DONE
    return any(
        (loop.end == len(ran) and not gave_up) or loop.length >= settings.loop_share * len(ran)
        for loop in find_loops(ran, settings)
    )
