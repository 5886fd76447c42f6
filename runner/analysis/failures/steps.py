"""An episode as the analysis sees it: the commands that ran, each in its normal form, with its result."""

from dataclasses import dataclass

from runner.analysis.failures.commands import WAITS, is_failure, programs, was_run
from runner.analysis.failures.normal import (
    RESTLESS,
    normal_command,
    normal_result,
    without_numbers,
    without_temporary_numbers,
)
from runner.domain.episode import Episode, Turn


@dataclass(frozen=True, kw_only=True)
class Step:
    """A command that ran. Replies without a command, and a last one that found no time to run, are no steps."""

    command: str
    """The normal form."""
    result: str
    """What came back, apart from what changes by itself."""
    programs: tuple[str, ...]
    failed: bool

    @property
    def waits(self) -> bool:
        return not WAITS.isdisjoint(self.programs)

    @property
    def variant(self) -> tuple[str, str]:
        """The command and its result without their numbers."""
        return without_numbers(self.command), without_numbers(self.result)


def steps(episode: Episode) -> tuple[Step, ...]:
    """The commands that an episode ran, in order."""
    return tuple(_step(turn) for turn in episode.turns if was_run(turn))


def _step(turn: Turn) -> Step:
    used, failed = programs(turn.command or ""), is_failure(turn)
    command, said = normal_command(turn.command or ""), normal_result(turn.observation)
    if failed:  # the third try in another temporary file; where it succeeds, it may well be the third file
        command, said = without_temporary_numbers(command), without_temporary_numbers(said)
    if not RESTLESS.isdisjoint(used):
        said = without_numbers(said)
    ending = "stopped" if turn.timed_out else turn.exit_code
    return Step(command=command, result=f"{ending}: {said}", programs=used, failed=failed)
