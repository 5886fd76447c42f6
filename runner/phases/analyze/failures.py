"""Every episode analysed once, streamed: a row per failed one, and the facts that summaries are made of."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.failures import EpisodeFacts, FailureMode, facts_of, find_loops, summarise_facts
from runner.analysis.failures.steps import steps
from runner.analysis.settings import AnalysisSettings
from runner.domain.episode import Episode
from runner.domain.task import Labels
from runner.phases.analyze.sources import Source
from runner.phases.base import Context
from runner.phases.work import Stopped
from runner.report.data import FailureSet
from runner.store.episodes import read_episodes
from runner.store.jsonl import write_rows

FAILURES = "failures.jsonl"
_COUNTS = re.compile(r"\d+ (?:passed|failed|error|errors)(?:, \d+ (?:passed|failed|error|errors))*")


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A failed episode, where to find it again."""

    source: Source
    task_id: str
    sample: int
    mode: FailureMode
    turns: int


@dataclass(frozen=True, kw_only=True)
class Analysed:
    """All episodes of a run."""

    sets: Sequence[FailureSet]
    failed: Sequence[Failed]


def analyse(
    found: Sequence[Source], settings: AnalysisSettings, labels: Mapping[str, Labels], context: Context
) -> Analysed:
    """Read every source, write ``failures.jsonl``. Raises StorageError, Stopped."""
    sets, failed, rows = [], list[Failed](), list[dict[str, Any]]()
    for source in found:
        facts: list[EpisodeFacts] = []
        for episode in read_episodes(source.path):
            if context.stop.is_set():
                raise Stopped("interrupted")
            one = facts_of(episode, settings)
            facts.append(one)
            if one.mode is not None:
                rows.append(_row(source, episode, one.mode, settings))
                failed.append(_failed(source, episode, one.mode))
        if facts:
            summary = summarise_facts(facts, settings, labels)
            sets.append(FailureSet(key=source.key, title=source.title, summary=summary))
    write_rows(context.folder / FAILURES, rows)
    return Analysed(sets=sets, failed=failed)


def _failed(source: Source, episode: Episode, mode: FailureMode) -> Failed:
    turns = len(episode.turns)
    return Failed(source=source, task_id=episode.task_id, sample=episode.sample, mode=mode, turns=turns)


def _row(source: Source, episode: Episode, mode: FailureMode, settings: AnalysisSettings) -> dict[str, Any]:
    return {
        "model": source.key,
        "task": episode.task_id,
        "sample": episode.sample,
        "end": episode.end.value,
        "mode": mode.value,
        "detail": detail(episode, mode, settings),
    }


def detail(episode: Episode, mode: FailureMode, settings: AnalysisSettings) -> str:
    """What the mode rests on, in a few words. Never the verifier's own: its log quotes the hidden test."""
    count = len(episode.turns)
    if mode is FailureMode.LOOP:
        return _loop(episode, settings)
    if mode is FailureMode.WRONG_ANSWER:
        tests = _COUNTS.findall(episode.verdict)
        return f"done after {count} turns" + (f"; {tests[-1]}" if tests else "")
    if mode is FailureMode.PROTOCOL_ERROR:
        return next((turn.invalid for turn in reversed(episode.turns) if turn.invalid), "")
    if mode is FailureMode.INFRA:
        return next(iter(episode.verdict.strip().splitlines()), "")[:200]
    return f"after {count} turns in {episode.seconds:.0f} s"


def _loop(episode: Episode, settings: AnalysisSettings) -> str:
    ran = steps(episode)
    longest = find_loops(ran, settings)[0]
    cycle = " ; ".join(step.command for step in ran[longest.start : longest.start + longest.cycle])
    return f"{longest.rounds} times: {cycle[:160]}"
