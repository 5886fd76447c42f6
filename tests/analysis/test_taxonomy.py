"""The taxonomy report, against figures worked out by hand and scipy."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.spatial.distance import jensenshannon

from runner.analysis.statistics import bootstrap_tasks, wilson
from runner.analysis.taxonomy import Draw, cells_of, difficulty_of, evenness, likeness, taxonomy_report, weights_of
from runner.domain.plain import plain
from runner.schema import Dimension, Taxonomy


def _draw(category: str, scenario: str, *, kept: bool = True, passes: int = 2, episodes: int = 4) -> Draw:
    return Draw(labels={"category": category, "scenario": scenario}, kept=kept, passes=passes, episodes=episodes)


DRAWS = [
    *[_draw("logs", "developer", passes=4)] * 3,
    *[_draw("logs", "auditor", passes=passes) for passes in (1, 2, 3)],
    *[_draw("cron", "developer", kept=False, passes=0)] * 4,
    _draw("cron", "auditor", kept=False, passes=0, episodes=0),
    _draw("cron", "auditor", passes=2),
]
WEIGHTS = {"category": {"logs": 1.0, "cron": 1.0, "git": 2.0, "never": 0.0}}


def test_marginals_count_draws_kept_tasks_and_passes_per_value():
    report = taxonomy_report(DRAWS, WEIGHTS)
    category, scenario = report.dimensions
    assert (report.draws, report.kept) == (12, 7)
    assert (category.name, scenario.name) == ("category", "scenario")
    assert [(one.value, one.draws, one.kept, one.tasks) for one in category.marginals] == [
        ("logs", 6, 6, 6),
        ("cron", 6, 1, 5),
        ("git", 0, 0, 0),
    ]
    logs, cron, git = category.marginals
    assert (logs.expected, git.expected) == (0.25, 0.5)
    assert (logs.keep_rate, cron.keep_rate, git.keep_rate) == (1.0, pytest.approx(1 / 6), None)
    assert cron.keep_interval == wilson(1, 6)
    assert (logs.pass_rate, cron.pass_rate, git.pass_rate) == (0.75, 0.1, None)
    assert logs.pass_interval == bootstrap_tasks([1, 1, 1, 0.25, 0.5, 0.75])
    assert (git.keep_interval.low, git.keep_interval.high) == (0.0, 1.0)


def test_values_without_known_weights_are_listed_by_name():
    scenario = taxonomy_report(DRAWS, WEIGHTS).dimensions[1]
    assert [(one.value, one.expected) for one in scenario.marginals] == [("auditor", None), ("developer", None)]
    assert scenario.drawn.likeness is None


def test_balance_of_draws_and_of_what_was_kept():
    category, scenario = taxonomy_report(DRAWS, WEIGHTS).dimensions
    assert category.drawn.evenness == pytest.approx(1 / np.log2(3))
    assert category.kept.evenness < category.drawn.evenness
    assert scenario.drawn.evenness == pytest.approx(stats.entropy([5, 7], base=2))
    # Draws 1/2, 1/2, 0 against weights 1/4, 1/4, 1/2: H(3/8, 3/8, 1/4) - (1 + 3/2) / 2 = 0.3113 bits.
    assert category.drawn.likeness == pytest.approx(1 - 0.3113, abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_balance_scores_are_scipys(pairs: list[tuple[int, int]]):
    counts, weights = [count for count, _ in pairs], [float(weight) for _, weight in pairs]
    if sum(counts):
        assert evenness(counts) == pytest.approx(stats.entropy(counts) / np.log(len(counts)))
    if sum(counts) and sum(weights):
        assert likeness(counts, weights) == pytest.approx(1 - jensenshannon(counts, weights, base=2) ** 2)
        assert -1e-9 <= (likeness(counts, weights) or 0) <= 1


def test_balance_of_one_value_or_none():
    assert evenness([7]) == 1.0
    assert evenness([0, 0]) == evenness([]) == 0.0
    assert likeness([0, 0], [1.0, 1.0]) is None
    assert likeness([3, 3], [5.0, 5.0]) == pytest.approx(1.0)
    assert likeness([3, 0], [0.0, 1.0]) == pytest.approx(0.0)


def test_difficulty_sets_never_and_always_apart():
    told = [(one.low, one.high, one.tasks, one.kept) for one in difficulty_of(DRAWS)]
    assert told == [
        (0.0, 0.0, 4, 0),
        (0.0, 0.2, 0, 0),
        (0.2, 0.4, 1, 1),
        (0.4, 0.6, 2, 2),
        (0.6, 0.8, 1, 1),
        (0.8, 1.0, 0, 0),
        (1.0, 1.0, 3, 3),
    ]


@given(st.integers(1, 20).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_every_tried_task_is_in_exactly_one_bin(counts: tuple[int, int], bins: int):
    passes, episodes = counts
    found = difficulty_of([_draw("a", "b", passes=passes, episodes=episodes)], bins)
    assert [one.tasks for one in found].count(1) == 1
    (place,) = (one for one in found if one.tasks)
    assert place.low - 1e-9 <= passes / episodes <= place.high + 1e-9


def test_cells_that_teach_nothing_are_listed_where_there_are_draws_enough():
    report = taxonomy_report(DRAWS, WEIGHTS)
    assert [cell.values for cell in report.too_easy] == [("logs", "developer")]
    assert [cell.values for cell in report.too_hard] == [("cron", "developer")]
    assert [(cell.values, cell.draws, cell.kept) for cell in report.never_kept] == [(("cron", "developer"), 4, 0)]
    assert not taxonomy_report(DRAWS, WEIGHTS, least_draws=5).never_kept
    assert report.never_kept[0].dimensions == ("category", "scenario")


def test_cells_are_pairs_of_every_two_dimensions():
    draw = Draw(labels={"c": "1", "a": "2", "b": "3"}, kept=True)
    assert [cell.dimensions for cell in cells_of([draw])] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_a_dropped_dimension_and_no_draws_at_all_are_fine():
    only = taxonomy_report([Draw(labels={"category": "logs"}, kept=True, passes=1, episodes=1)])
    assert [one.name for one in only.dimensions] == ["category"]
    assert only.too_easy == ()
    nothing = taxonomy_report([], WEIGHTS)
    assert (nothing.draws, nothing.dimensions[0].drawn.evenness) == (0, 0.0)
    assert json.dumps(plain(nothing), allow_nan=False)


def test_weights_come_from_the_recipe():
    taxonomy = Taxonomy(
        dimensions={
            "category": Dimension(values={"logs": 1, "cron": 3}),
            "scenario": Dimension(values={"developer": 1}, fixed="auditor"),
            "complexity": None,
        }
    )
    assert weights_of(taxonomy) == {"category": {"logs": 1, "cron": 3}, "scenario": {"auditor": 1.0}}
