"""Two runs side by side: one score, measured item by item (a rate per task), in each of them.

Where both runs have the same items the comparison is paired, which sees much smaller differences: easy and hard tasks
cancel out. Where they do not (another taxonomy makes other tasks), the two sets are compared as independent samples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from runner.analysis.statistics import Interval, bootstrap_tasks, paired

RESAMPLES = 10_000
"""Permutations of an unpaired comparison; fewer where there are fewer in all."""
PAIRED_SHARE = 0.5
"""So large a share of the smaller set has to be in both for a paired comparison."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """After minus before."""

    delta: float
    """Of what was compared: of the common items when paired."""
    interval: Interval
    p_value: float
    """Two-sided."""
    is_paired: bool
    items: tuple[int, int]
    """How many of each were compared; the same number twice when paired."""


def compare(
    before: Mapping[str, float], after: Mapping[str, float], *, level: float = 0.95, seed: int = 0
) -> Comparison | None:
    """Rates in [0, 1] by item; None where either run has no item. Paired by ``PAIRED_SHARE``, else unpaired."""
    if not before or not after:
        return None
    common = len(before.keys() & after.keys())
    if common >= PAIRED_SHARE * min(len(before), len(after)):
        found = paired(before, after, level=level, seed=seed)
        return Comparison(
            delta=found.delta, interval=found.interval, p_value=found.p_value, is_paired=True, items=(common, common)
        )
    return _unpaired(list(before.values()), list(after.values()), level, seed)


def _unpaired(before: Sequence[float], after: Sequence[float], level: float, seed: int) -> Comparison:
    """The difference of the means of two independent samples."""
    return Comparison(
        delta=fmean(after) - fmean(before),
        interval=_interval(before, after, level, seed),
        p_value=_p_value(before, after, seed),
        is_paired=False,
        items=(len(before), len(after)),
    )


def _interval(before: Sequence[float], after: Sequence[float], level: float, seed: int) -> Interval:
    """Square-and-add of either mean's own interval (Newcombe 1998, method 10; Zou and Donner 2008)."""
    one, other = bootstrap_tasks(before, level, seed), bootstrap_tasks(after, level, seed)
    mean, later = fmean(before), fmean(after)
    down = math.hypot(later - other.low, one.high - mean)
    up = math.hypot(other.high - later, mean - one.low)
    return Interval(later - mean - down, later - mean + up, level)


def _p_value(before: Sequence[float], after: Sequence[float], seed: int) -> float:
    """Of a permutation test (scipy); 1.0 where one item, or equal values, cannot tell anything."""
    if min(len(before), len(after)) < 2 or len({*before, *after}) == 1:
        return 1.0
    import numpy as np
    from scipy.stats import permutation_test

    found = permutation_test(
        (np.asarray(after), np.asarray(before)),
        lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis),
        permutation_type="independent",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=RESAMPLES // 10,
        rng=np.random.default_rng(seed),
    )
    return min(1.0, float(found.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected for their number (Holm 1979), in their own order: each may be held against the level."""
    ordered = sorted(range(len(p_values)), key=lambda place: p_values[place])
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(ordered):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = worst
    return corrected
