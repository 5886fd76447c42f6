"""What became of the taxonomy's draws, for the author of an ablation: which labels were drawn, which tasks stayed, how
hard they are, and which cells teach nothing.

A *draw* is one sampled label set, whether or not it became a task. A *cell* is a pair of values of two dimensions. Keep
rates have Wilson intervals, for each draw is one trial; pass rates are means over tasks with bootstrap intervals over
tasks, because attempts at one task are alike.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from runner.analysis.statistics import Interval, bootstrap_tasks, wilson
from runner.domain.task import Labels
from runner.schema import Taxonomy

DIFFICULTY_BINS = 5
"""Between never and always passed."""

LEAST_DRAWS = 3
"""Cells with fewer draws say nothing and are not listed."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One draw and what became of it."""

    labels: Labels
    kept: bool
    """It became a task that the filter kept."""
    passes: int = 0
    episodes: int = 0
    """Graded attempts of the solver; 0 when no task came of the draw."""


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """One value of a dimension."""

    value: str
    expected: float | None
    """Its share of the draws by the taxonomy's weights; None when they are not known."""
    draws: int
    kept: int
    keep_rate: float | None
    """None without a draw."""
    keep_interval: Interval
    tasks: int
    """Those that were tried."""
    pass_rate: float | None
    """The mean over them; None when none was tried."""
    pass_interval: Interval


@dataclass(frozen=True, kw_only=True)
class Balance:
    """How evenly a set of tasks spreads over a dimension's values."""

    evenness: float
    """Pielou's evenness, the entropy over that of equal shares: 1 when all values are as frequent, 0 when only one
    occurs."""
    likeness: float | None
    """1 minus the Jensen-Shannon divergence (in bits) from the shares that the weights ask for: 1 when they are met, 0
    when the two have no value in common. None when the weights are not known."""


@dataclass(frozen=True, kw_only=True)
class DimensionReport:
    """One dimension."""

    name: str
    marginals: tuple[Marginal, ...]
    """Every value that has a weight or was drawn, in the taxonomy's order, then the others by name."""
    drawn: Balance
    kept: Balance


@dataclass(frozen=True, kw_only=True)
class Difficulty:
    """The tried tasks whose pass rate is at least ``low`` and below ``high``; the first and the last bin are those
    that never and that always passed (``low`` = ``high``), and are in no other."""

    low: float
    high: float
    tasks: int
    kept: int


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A pair of values of two dimensions."""

    dimensions: tuple[str, str]
    values: tuple[str, str]
    draws: int
    kept: int
    passes: int
    episodes: int


@dataclass(frozen=True, kw_only=True)
class TaxonomyReport:
    """What an ablation author needs. Cells have at least ``least_draws`` draws; those with most come first."""

    draws: int
    kept: int
    dimensions: tuple[DimensionReport, ...]
    difficulty: tuple[Difficulty, ...]
    too_easy: tuple[Cell, ...]
    """Every episode passed."""
    too_hard: tuple[Cell, ...]
    """Tried, and no episode passed."""
    never_kept: tuple[Cell, ...]
    least_draws: int


def taxonomy_report(
    draws: Sequence[Draw],
    weights: Mapping[str, Mapping[str, float]] | None = None,
    *,
    level: float = 0.95,
    seed: int = 0,
    least_draws: int = LEAST_DRAWS,
) -> TaxonomyReport:
    """Report on draws. ``weights`` holds the taxonomy's own, per dimension and value; only their ratios matter."""
    cells = [cell for cell in cells_of(draws) if cell.draws >= least_draws]
    return TaxonomyReport(
        draws=len(draws),
        kept=sum(draw.kept for draw in draws),
        dimensions=dimensions_of(draws, weights or {}, level=level, seed=seed),
        difficulty=difficulty_of(draws),
        too_easy=tuple(cell for cell in cells if cell.episodes and cell.passes == cell.episodes),
        too_hard=tuple(cell for cell in cells if cell.episodes and not cell.passes),
        never_kept=tuple(cell for cell in cells if not cell.kept),
        least_draws=least_draws,
    )


def weights_of(taxonomy: Taxonomy) -> dict[str, dict[str, float]]:
    """A recipe's weights as ``taxonomy_report`` takes them; a fixed dimension has one value."""
    return {
        name: dict(dimension.values) if dimension.fixed is None else {dimension.fixed: 1.0}
        for name, dimension in taxonomy.dimensions.items()
        if dimension is not None
    }


def dimensions_of(
    draws: Sequence[Draw], weights: Mapping[str, Mapping[str, float]], *, level: float = 0.95, seed: int = 0
) -> tuple[DimensionReport, ...]:
    """Marginals and balance per dimension, those with weights first."""
    drawn = sorted({name for draw in draws for name in draw.labels} - weights.keys())
    return tuple(_dimension(name, draws, weights.get(name, {}), level, seed) for name in [*weights, *drawn])


def difficulty_of(draws: Sequence[Draw], bins: int = DIFFICULTY_BINS) -> tuple[Difficulty, ...]:
    """The histogram of the tried tasks' pass rates: never, ``bins`` equal ones between, always."""
    edges = [(0.0, 0.0), *((i / bins, (i + 1) / bins) for i in range(bins)), (1.0, 1.0)]
    places = [(_bin(draw, bins), draw.kept) for draw in draws if draw.episodes]
    tasks, kept = Counter(place for place, _ in places), Counter(place for place, stayed in places if stayed)
    return tuple(
        Difficulty(low=low, high=high, tasks=tasks[place], kept=kept[place]) for place, (low, high) in enumerate(edges)
    )


def cells_of(draws: Sequence[Draw]) -> list[Cell]:
    """Every pair of values that was drawn, those with most draws first."""
    groups: dict[tuple[tuple[str, str], tuple[str, str]], list[Draw]] = defaultdict(list)
    for draw in draws:
        for (one, value), (other, another) in combinations(sorted(draw.labels.items()), 2):
            groups[(one, other), (value, another)].append(draw)
    cells = [
        Cell(
            dimensions=dimensions,
            values=values,
            draws=len(group),
            kept=sum(draw.kept for draw in group),
            passes=sum(draw.passes for draw in group),
            episodes=sum(draw.episodes for draw in group),
        )
        for (dimensions, values), group in groups.items()
    ]
    return sorted(cells, key=lambda cell: (-cell.draws, cell.dimensions, cell.values))


def evenness(counts: Sequence[int]) -> float:
    """Pielou's evenness (1966) of counts, one per value that could occur; 1.0 for a single value, 0.0 for no count."""
    if len(counts) <= 1 or not sum(counts):
        return float(len(counts) == 1)
    return _entropy([count / sum(counts) for count in counts]) / math.log2(len(counts))


def likeness(counts: Sequence[int], weights: Sequence[float]) -> float | None:
    """1 minus the Jensen-Shannon divergence (Lin 1991) in bits; None when either has no sum."""
    if not sum(counts) or not sum(weights):
        return None
    one = [count / sum(counts) for count in counts]
    other = [weight / sum(weights) for weight in weights]
    middle = [(p + q) / 2 for p, q in zip(one, other, strict=True)]
    return 1.0 - max(0.0, _entropy(middle) - (_entropy(one) + _entropy(other)) / 2)


def _entropy(shares: Sequence[float]) -> float:
    """In bits."""
    return -sum(share * math.log2(share) for share in shares if share > 0)


def _dimension(
    name: str, draws: Sequence[Draw], weights: Mapping[str, float], level: float, seed: int
) -> DimensionReport:
    groups: dict[str, list[Draw]] = {value: [] for value, weight in weights.items() if weight > 0}
    for value, draw in sorted((draw.labels[name], index) for index, draw in enumerate(draws) if name in draw.labels):
        groups.setdefault(value, []).append(draws[draw])
    total = sum(weights.values())
    shares = [weights.get(value, 0.0) / total if total else 0.0 for value in groups]
    return DimensionReport(
        name=name,
        marginals=tuple(
            _marginal(value, group, share if total else None, level, seed)
            for (value, group), share in zip(groups.items(), shares, strict=True)
        ),
        drawn=_balance([len(group) for group in groups.values()], shares),
        kept=_balance([sum(draw.kept for draw in group) for group in groups.values()], shares),
    )


def _balance(counts: Sequence[int], shares: Sequence[float]) -> Balance:
    return Balance(evenness=evenness(counts), likeness=likeness(counts, shares))


def _marginal(value: str, group: Sequence[Draw], expected: float | None, level: float, seed: int) -> Marginal:
    kept = sum(draw.kept for draw in group)
    rates = [draw.passes / draw.episodes for draw in group if draw.episodes]
    return Marginal(
        value=value,
        expected=expected,
        draws=len(group),
        kept=kept,
        keep_rate=kept / len(group) if group else None,
        keep_interval=wilson(kept, len(group), level),
        tasks=len(rates),
        pass_rate=math.fsum(rates) / len(rates) if rates else None,
        pass_interval=bootstrap_tasks(rates, level, seed),
    )


def _bin(draw: Draw, bins: int) -> int:
    """0 for never, 1 to ``bins``, one more for always. In whole numbers: 3 of 5 is exactly at an edge."""
    if draw.passes in (0, draw.episodes):
        return 0 if not draw.passes else bins + 1
    return 1 + draw.passes * bins // draw.episodes
