"""How sure a score is: intervals for rates, and the comparison of two models on the same tasks.

Attempts at one task are alike, so a score over several attempts a task varies from task to task, not from attempt to
attempt: ``bootstrap_tasks`` and ``paired`` resample tasks. ``wilson`` is for plain counts (one attempt a task; the
share of failed episodes that end in a loop). All results are a function of the data and the seed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

RESAMPLES = 10_000
"""Bootstrap samples; the ends of a 95 % interval then rest on 250 samples each."""

EXACT_TASKS = 14
"""Of up to so many tasks that differ every pattern of signs is counted (2^14); of more, ``FLIPS`` are drawn."""

FLIPS = 20_000
_BATCH = 4_000_000
"""Numbers held at once: 32 MB."""


@dataclass(frozen=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    level: float
    """0.95: the method covers the true value in 95 % of experiments, or nearly."""


@dataclass(frozen=True)
class Difference:
    """After minus before, over the tasks that both have."""

    delta: float
    """The mean of the tasks' differences; 0.0 when there is no common task."""
    interval: Interval
    p_value: float
    """Two-sided: how often chance alone, a fair coin for the sign of each task's difference, gives one this large."""
    tasks: int
    """How many tasks both have: all that was compared."""


def wilson(passes: int, n: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for ``passes`` of ``n`` (Wilson 1927, without continuity correction); [0, 1] for n = 0.

    Raises ValueError unless 0 <= passes <= n and 0 < level < 1.
    """
    if not 0 <= passes <= n:
        raise ValueError(f"{passes} passes of {n} attempts")
    z = NormalDist().inv_cdf(0.5 + _checked(level) / 2)
    if n == 0:
        return Interval(0.0, 1.0, level)
    rate, spread = passes / n, z * z / n
    middle = rate + spread / 2
    half = math.sqrt(spread * (rate * (1 - rate) + spread / 4))
    low, high = (middle - half) / (1 + spread), (middle + half) / (1 + spread)
    return Interval(low if passes else 0.0, high if passes < n else 1.0, level)


def bootstrap_tasks(rates: Sequence[float], level: float = 0.95, seed: int = 0) -> Interval:
    """The percentile bootstrap over tasks (Efron 1979) of the mean of ``rates``, one in [0, 1] per task.

    Where all are equal, resampling shows no spread though other tasks may well differ; see ``_all_equal``. Raises
    ValueError for a rate outside [0, 1].
    """
    if not all(0 <= rate <= 1 for rate in rates):
        raise ValueError("a task's rate lies between 0 and 1")
    return _bootstrap(rates, _checked(level), seed, lowest=0.0)


def paired(
    before: Mapping[str, float], after: Mapping[str, float], *, level: float = 0.95, seed: int = 0
) -> Difference:
    """Compare two models by their tasks' rates (in [0, 1]), by task id; a task that only one of them has is left out.

    The interval is the percentile bootstrap over tasks, the p-value a sign-flip permutation test of the mean
    difference (Fisher 1935; Good 2005, "Permutation, Parametric and Bootstrap Tests of Hypotheses", chapter 3).
    """
    common = sorted(before.keys() & after.keys())
    deltas = [after[task] - before[task] for task in common]
    return Difference(
        delta=math.fsum(deltas) / len(deltas) if deltas else 0.0,
        interval=_bootstrap(deltas, _checked(level), seed, lowest=-1.0),
        p_value=_sign_flips([delta for delta in deltas if delta], seed),
        tasks=len(common),
    )


def _checked(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"a confidence level lies between 0 and 1, not {level}")
    return level


def _bootstrap(values: Sequence[float], level: float, seed: int, *, lowest: float) -> Interval:
    """Of the mean of values in [lowest, 1]."""
    if len(set(values)) <= 1:
        return _all_equal(values, level, lowest)
    import numpy as np

    data, generator = np.asarray(values, dtype=float), np.random.default_rng(seed)
    means = np.concatenate(
        [data[generator.integers(0, len(data), (size, len(data)))].mean(axis=1) for size in _batches(RESAMPLES, data)]
    )
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return Interval(float(low), float(high), level)


def _all_equal(values: Sequence[float], level: float, lowest: float) -> Interval:
    """Of no value at all, or of equal ones: none of n tasks differs from the others, so at most a share u of all tasks
    does (Wilson's upper end for 0 of n), and those by no more than the range of a value allows.

    For rates that are all 0 or all 1 this is Wilson's interval itself.
    """
    share = wilson(0, len(values), level).high
    value = values[0] if values else 0.0
    return Interval(value - share * (value - lowest), value + share * (1 - value), level)


def _sign_flips(deltas: Sequence[float], seed: int) -> float:
    """The two-sided p-value of the mean of ``deltas``, none of them 0 (a 0 has no sign to flip)."""
    if not deltas:
        return 1.0
    import numpy as np

    data = np.asarray(deltas, dtype=float)
    threshold = abs(data.sum()) * (1 - 1e-9)  # equal sums differ in the last bits, depending on their order
    if len(data) <= EXACT_TASKS:
        patterns = (np.arange(2 ** len(data))[:, None] >> np.arange(len(data))) & 1
        return float(_as_large(patterns, data, threshold) / len(patterns))
    generator = np.random.default_rng(seed)
    draws = (generator.integers(0, 2, (size, len(data))) for size in _batches(FLIPS, data))
    # The observed pattern is one of them (Phipson and Smyth 2010): a drawn p-value is never 0.
    return float((1 + sum(_as_large(patterns, data, threshold) for patterns in draws)) / (1 + FLIPS))


def _as_large(patterns: Any, data: Any, threshold: float) -> int:
    """How many rows of signs (0 and 1) give a sum at least as far from 0 as the threshold."""
    return int((abs((2 * patterns - 1) @ data) >= threshold).sum())


def _batches(total: int, data: Any) -> list[int]:
    size = max(1, _BATCH // len(data))
    return [min(size, total - done) for done in range(0, total, size)]
