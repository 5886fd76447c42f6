"""Many episodes of one model, summarised: which modes, how diverse, how quick, and the same per label."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from runner.analysis.failures.diversity import DEFINITION
from runner.analysis.failures.facts import EpisodeFacts, Recovery, facts_of
from runner.analysis.failures.modes import FailureMode
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import Episode, Outcome
from runner.domain.task import Labels


@dataclass(frozen=True, kw_only=True)
class ModeCount:
    """How often a failure mode occurs."""

    count: int
    share: float | None
    """Of the failed graded episodes; None when there are none, and for infra, which is apart."""


@dataclass(frozen=True, kw_only=True)
class Diversity:
    """The mean command diversity after a failure."""

    mean: float | None
    """None when no episode has one."""
    episodes: int
    """Those that have one."""
    window: int
    """k."""
    definition: str = DEFINITION


@dataclass(frozen=True, kw_only=True)
class ProgramCount:
    """A program that the agent used."""

    program: str
    uses: int
    episodes: int
    """Those that used it at all."""


@dataclass(frozen=True, kw_only=True)
class ToSuccess:
    """What a passing episode takes. None everywhere when none passed."""

    episodes: int
    mean_turns: float | None
    median_turns: float | None
    mean_output_tokens: float | None
    """Written by the model."""
    mean_tokens: float | None
    """Read and written: the conversation counts again in every turn."""
    mean_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class FailureSummary:
    """The analysis of a set of episodes."""

    episodes: int
    """All, infra included."""
    passes: int
    failures: int
    """Failed graded episodes: what the shares are of."""
    infra: int
    modes: Mapping[FailureMode, ModeCount]
    """Every mode, in order of precedence."""
    diversity_pass: Diversity
    diversity_fail: Diversity
    recovery: Recovery
    """Over all graded episodes."""
    next_succeeds: float | None
    """``recovery`` as shares of the failed commands; None when no command failed."""
    later_succeeds: float | None
    programs: Sequence[ProgramCount]
    """The most used ones, over all graded episodes."""
    success: ToSuccess
    by_label: Mapping[str, Mapping[str, "FailureSummary"]] = field(default_factory=dict)
    """Dimension -> value -> the same for the tasks with that label."""

    @property
    def loop_share(self) -> float | None:
        return self.modes[FailureMode.LOOP].share

    @property
    def turn_limit_share(self) -> float | None:
        return self.modes[FailureMode.TURN_LIMIT].share


def summarise(
    episodes: Iterable[Episode], settings: AnalysisSettings, labels: Mapping[str, Labels] | None = None
) -> FailureSummary:
    """Analyse episodes of one model, streamed. ``labels`` holds those of each task, by its id."""
    return summarise_facts([facts_of(episode, settings) for episode in episodes], settings, labels)


def summarise_facts(
    facts: Sequence[EpisodeFacts], settings: AnalysisSettings, labels: Mapping[str, Labels] | None = None
) -> FailureSummary:
    """The same, for a caller who has analysed each episode already."""
    graded = [one for one in facts if one.mode is not FailureMode.INFRA]
    passes = [one for one in graded if one.outcome is Outcome.PASS]
    fails = [one for one in graded if one.outcome is not Outcome.PASS]
    recovery = sum((one.recovery for one in graded), Recovery())
    return FailureSummary(
        episodes=len(facts),
        passes=len(passes),
        failures=len(fails),
        infra=len(facts) - len(graded),
        modes=_modes(facts, len(fails)),
        diversity_pass=_diversity(passes, settings.diversity_window),
        diversity_fail=_diversity(fails, settings.diversity_window),
        recovery=recovery,
        next_succeeds=_share(recovery.next_succeeds, recovery.failed),
        later_succeeds=_share(recovery.later_succeeds, recovery.failed),
        programs=_programs(graded, settings.top_commands),
        success=_success(passes),
        by_label=_by_label(facts, settings, labels or {}),
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _modes(facts: Sequence[EpisodeFacts], failures: int) -> dict[FailureMode, ModeCount]:
    counts = Counter(one.mode for one in facts)
    return {
        mode: ModeCount(count=counts[mode], share=None if mode is FailureMode.INFRA else _share(counts[mode], failures))
        for mode in FailureMode
    }


def _diversity(facts: Sequence[EpisodeFacts], window: int) -> Diversity:
    values = [one.diversity for one in facts if one.diversity is not None]
    return Diversity(mean=fmean(values) if values else None, episodes=len(values), window=window)


def _programs(facts: Sequence[EpisodeFacts], most: int) -> tuple[ProgramCount, ...]:
    uses = Counter(name for one in facts for name in one.programs)
    episodes = Counter(name for one in facts for name in set(one.programs))
    ordered = sorted(uses, key=lambda name: (-uses[name], name))
    return tuple(ProgramCount(program=name, uses=uses[name], episodes=episodes[name]) for name in ordered[:most])


def _success(passes: Sequence[EpisodeFacts]) -> ToSuccess:
    some = bool(passes)
    return ToSuccess(
        episodes=len(passes),
        mean_turns=fmean(one.turns for one in passes) if some else None,
        median_turns=float(median(one.turns for one in passes)) if some else None,
        mean_output_tokens=fmean(one.output_tokens for one in passes) if some else None,
        mean_tokens=fmean(one.input_tokens + one.output_tokens for one in passes) if some else None,
        mean_seconds=fmean(one.seconds for one in passes) if some else None,
    )


def _by_label(
    facts: Sequence[EpisodeFacts], settings: AnalysisSettings, labels: Mapping[str, Labels]
) -> dict[str, dict[str, FailureSummary]]:
    groups: dict[str, dict[str, list[EpisodeFacts]]] = defaultdict(lambda: defaultdict(list))
    for one in facts:
        for dimension, value in labels.get(one.task_id, {}).items():
            groups[dimension][value].append(one)
    return {
        dimension: {value: summarise_facts(groups[dimension][value], settings) for value in sorted(groups[dimension])}
        for dimension in sorted(groups)
    }
