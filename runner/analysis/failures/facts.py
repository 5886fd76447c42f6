"""What one episode says, reduced to a few numbers, so that any number of episodes can be summarised in a stream."""

from collections.abc import Sequence
from dataclasses import dataclass

from runner.analysis.failures.diversity import diversity
from runner.analysis.failures.modes import FailureMode, classify_steps
from runner.analysis.failures.steps import Step, steps
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import Episode, Outcome


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What follows a failed command. A failed command that nothing follows has not been recovered from."""

    failed: int = 0
    """Commands that failed."""
    next_succeeds: int = 0
    """Those after which the very next command succeeded."""
    later_succeeds: int = 0
    """Those after which any later command succeeded."""

    def __add__(self, other: "Recovery") -> "Recovery":
        return Recovery(
            failed=self.failed + other.failed,
            next_succeeds=self.next_succeeds + other.next_succeeds,
            later_succeeds=self.later_succeeds + other.later_succeeds,
        )


@dataclass(frozen=True, kw_only=True)
class EpisodeFacts:
    """An analysed episode."""

    task_id: str
    outcome: Outcome
    mode: FailureMode | None
    diversity: float | None
    recovery: Recovery
    programs: tuple[str, ...]
    turns: int
    """Replies of the model, unusable ones and the last "done" included."""
    commands: int
    """That ran."""
    input_tokens: int
    """Read, summed over the turns: the conversation counts again in each."""
    output_tokens: int
    """Written by the model."""
    seconds: float
    """Wall-clock, of the whole episode."""


def facts_of(episode: Episode, settings: AnalysisSettings) -> EpisodeFacts:
    """Analyse one episode."""
    ran = steps(episode)
    return EpisodeFacts(
        task_id=episode.task_id,
        outcome=episode.outcome,
        mode=classify_steps(episode, ran, settings),
        diversity=diversity(ran, settings.diversity_window),
        recovery=recovery(ran),
        programs=tuple(name for step in ran for name in step.programs),
        turns=len(episode.turns),
        commands=len(ran),
        input_tokens=sum(turn.input_tokens for turn in episode.turns),
        output_tokens=sum(turn.output_tokens for turn in episode.turns),
        seconds=episode.seconds,
    )


def recovery(ran: Sequence[Step]) -> Recovery:
    """Count what follows the failed commands of an episode."""
    failed = [index for index, step in enumerate(ran) if step.failed]
    return Recovery(
        failed=len(failed),
        next_succeeds=sum(index + 1 < len(ran) and not ran[index + 1].failed for index in failed),
        later_succeeds=sum(any(not step.failed for step in ran[index + 1 :]) for index in failed),
    )
