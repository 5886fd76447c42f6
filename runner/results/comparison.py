"""Runs into a comparison: settings, scores with tests, other figures; and the pages of it."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from string import ascii_uppercase

from runner.analysis.comparison import Comparison, compare, holm
from runner.analysis.statistics import bootstrap_tasks
from runner.compose.typed import to_config
from runner.report.comparison import Compared, Measured, Metric, RunComparison, Score, comparison_document
from runner.report.files import write_document
from runner.results.differences import frozen, settings_that_differ
from runner.results.measures import Measure, measures, metrics
from runner.results.runs import Run
from runner.tracking.secrets import Secrets

LEVEL = 0.95
_LONGEST_LABEL = 24


def compare_runs(runs: Sequence[Run], variants: Sequence[str] = ()) -> RunComparison:
    """Everything is held against the first run. ``variants`` says what tells them apart. Raises StorageError."""
    recipes = [frozen(run) for run in runs]
    changed = {
        name
        for run in runs
        for name in run.state["phases"]
        if len({one.state["phases"].get(name, {}).get("fingerprint") for one in runs}) > 1
    }
    scores = _scores([measures(run) for run in runs])
    return RunComparison(
        runs=[
            Compared(
                label=label,
                name=run.name,
                recipe=str(recipe["name"]),
                status=str(run.state["status"]),
                phases={name: phase["fingerprint"] for name, phase in run.state["phases"].items()},
            )
            for label, run, recipe in zip(_labels(runs, variants), runs, recipes, strict=True)
        ],
        settings=settings_that_differ(recipes),
        scores=scores,
        metrics=_metrics(
            [metrics(run, to_config(recipe), changed) for run, recipe in zip(runs, recipes, strict=True)],
            {score.name for score in scores},
        ),
        level=LEVEL,
    )


def write_comparison(found: RunComparison, folder: Path) -> Path:
    """``compare.html``, ``compare.md`` and figures; returns the page. Raises StorageError."""
    return write_document(comparison_document(found), folder, "compare", Secrets().text)[0]


def _labels(runs: Sequence[Run], variants: Sequence[str]) -> list[str]:
    """The variants where they are short and differ, else letters."""
    short = len(set(variants)) == len(runs) and all(0 < len(text) <= _LONGEST_LABEL for text in variants)
    return list(variants) if short else [_letter(place) for place in range(len(runs))]


def _letter(place: int) -> str:
    return ascii_uppercase[place] if place < len(ascii_uppercase) else f"R{place + 1}"


def _scores(found: Sequence[dict[str, Measure]]) -> list[Score]:
    """Those that are not the same everywhere."""
    names = dict.fromkeys(name for one in found for name in one)
    scores = (_score(name, [one.get(name) for one in found]) for name in names)
    return [score for score in scores if score is not None]


def _score(name: str, runs: Sequence[Measure | None]) -> Score | None:
    there = [run for run in runs if run is not None and run.values]
    if not there or (len(there) == len(runs) and _same(there)):
        return None
    first = runs[0]
    against = [None if first is None or run is None else _against(first, run) for run in runs[1:]]
    return Score(
        name=name,
        unit=there[0].unit,
        runs=[_measured(run) for run in runs],
        against_first=against,
        p_values=_corrected(against),
    )


def _against(first: Measure, run: Measure) -> Comparison | None:
    """None where both have the same results, or nothing."""
    return None if run.values == first.values else compare(first.values, run.values, level=LEVEL)


def _same(runs: Sequence[Measure]) -> bool:
    """A phase that two runs share has the same values in both."""
    return all(run.values == runs[0].values for run in runs)


def _measured(run: Measure | None) -> Measured | None:
    if run is None or not run.values:
        return None
    values = list(run.values.values())
    return Measured(value=fmean(values), interval=bootstrap_tasks(values, LEVEL), items=len(values))


def _corrected(found: Sequence[Comparison | None]) -> list[float | None]:
    """Holm's correction over those that there are."""
    corrected = iter(holm([one.p_value for one in found if one is not None]))
    return [None if one is None else next(corrected) for one in found]


def _metrics(found: Sequence[dict[str, float]], tested: set[str]) -> list[Metric]:
    names = dict.fromkeys(name for one in found for name in one)
    rows = [Metric(name=name, values=[one.get(name) for one in found]) for name in names if name not in tested]
    return [row for row in rows if len(set(row.values)) > 1]
