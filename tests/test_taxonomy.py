"""Draws: stable per index, independent per dimension, balanced, and validated."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.errors import RecipeError
from runner.schema import Dimension, Sampling, Taxonomy
from runner.taxonomy import MAX_BLOCK, check, combinations, draw

TOPICS = Dimension(values={"logs": 1, "git": 1, "sqlite": 2})
LEVELS = Dimension(values={"easy": 3, "hard": 1})
TAXONOMY = Taxonomy(dimensions={"topic": TOPICS, "level": LEVELS})

samplings = st.sampled_from(list(Sampling))
weights = st.dictionaries(st.text(min_size=1, max_size=8), st.integers(1, 9).map(float), min_size=1, max_size=9)


@given(samplings, st.integers(-(2**40), 2**40), st.permutations(range(40)))
def test_a_draw_depends_on_nothing_but_seed_and_index(sampling, seed, order):
    taxonomy = replace(TAXONOMY, sampling=sampling)
    in_order = [draw(taxonomy, seed, index) for index in range(40)]
    shuffled = {index: draw(taxonomy, seed, index) for index in order}
    assert [shuffled[index] for index in range(40)] == in_order


def test_known_draws_never_change():
    """Written down once: a change here changes every recipe's tasks."""
    independent = [tuple(draw(TAXONOMY, 7, index).values()) for index in range(6)]
    stratified = [tuple(draw(replace(TAXONOMY, sampling=Sampling.stratified), 7, i).values()) for i in range(4)]
    assert independent == KNOWN_INDEPENDENT
    assert stratified == KNOWN_STRATIFIED


@given(samplings, st.integers(0, 1000), st.integers(0, 10_000))
def test_dropping_or_adding_a_dimension_leaves_the_others_alone(sampling, seed, index):
    whole = draw(replace(TAXONOMY, sampling=sampling), seed, index)
    dropped = Taxonomy(dimensions={"topic": TOPICS, "level": None}, sampling=sampling)
    added = Taxonomy(dimensions={"tone": LEVELS, **TAXONOMY.dimensions}, sampling=sampling)
    assert draw(dropped, seed, index) == {"topic": whole["topic"]}
    assert {key: value for key, value in draw(added, seed, index).items() if key != "tone"} == whole


@given(samplings, weights, st.integers(0, 100))
def test_the_scale_of_weights_does_not_matter(sampling, values, index):
    larger = {value: weight * 4 for value, weight in values.items()}
    first, second = (Taxonomy(dimensions={"d": Dimension(values=v)}, sampling=sampling) for v in (values, larger))
    assert draw(first, 1, index) == draw(second, 1, index)


@given(weights, st.integers(0, 100))
def test_the_order_of_values_does_not_matter_to_independent_draws(values, index):
    turned = dict(reversed(values.items()))
    first, second = (Taxonomy(dimensions={"d": Dimension(values=v)}) for v in (values, turned))
    assert draw(first, 1, index) == draw(second, 1, index)


@given(weights, st.integers(0, 1000), st.integers(0, 5))
def test_every_stratified_block_holds_each_value_exactly_as_often_as_its_weight_says(values, seed, block):
    common = math.gcd(*(int(weight) for weight in values.values()))
    size = sum(int(weight) // common for weight in values.values())
    taxonomy = Taxonomy(dimensions={"d": Dimension(values=values)}, sampling=Sampling.stratified)
    seen = Counter(draw(taxonomy, seed, block * size + place)["d"] for place in range(size))
    assert seen == {value: int(weight) // common for value, weight in values.items()}


def test_uneven_weights_stay_balanced_within_and_across_blocks():
    values = {"a": 0.123457, "b": 0.4, "c": 0.476543001}
    taxonomy = Taxonomy(dimensions={"d": Dimension(values=values)}, sampling=Sampling.stratified)
    total = sum(values.values())
    picks = [draw(taxonomy, 3, index)["d"] for index in range(4 * MAX_BLOCK)]
    for value, weight in values.items():
        share = weight / total
        for start in range(0, len(picks), MAX_BLOCK):
            assert abs(picks[start : start + MAX_BLOCK].count(value) - share * MAX_BLOCK) < 1
        assert abs(picks.count(value) - share * len(picks)) < 2


@pytest.mark.parametrize("values", [{"a": 1, "b": 1, "c": 2}, {"x": 0.05, "y": 0.95}, dict.fromkeys("abcdefghij", 1)])
def test_independent_draws_follow_the_weights(values):
    """Chi-square over 20,000 draws; the bound is far beyond the 99.99th percentile, and the seed is fixed."""
    taxonomy, n = Taxonomy(dimensions={"d": Dimension(values=values)}), 20_000
    seen, total = Counter(draw(taxonomy, 11, index)["d"] for index in range(n)), sum(values.values())
    expected = {value: n * weight / total for value, weight in values.items()}
    assert sum((seen[value] - want) ** 2 / want for value, want in expected.items()) < 4 * len(values) + 10


def test_two_dimensions_are_drawn_independently_of_each_other():
    pair = Taxonomy(dimensions={"a": LEVELS, "b": LEVELS})
    seen = Counter(tuple(draw(pair, 5, index).values()) for index in range(8000))
    assert abs(seen["easy", "easy"] / 8000 - 9 / 16) < 0.03
    assert abs(seen["hard", "hard"] / 8000 - 1 / 16) < 0.02


@given(st.integers(0, 300))
def test_adding_a_value_moves_only_the_draws_that_it_wins(index):
    more = Taxonomy(dimensions={"topic": Dimension(values={**TOPICS.values, "tar": 1})})
    before, after = draw(TAXONOMY, 0, index)["topic"], draw(more, 0, index)["topic"]
    assert after in (before, "tar")


@given(samplings, st.integers(0, 500))
def test_weight_zero_never_occurs(sampling, index):
    never = Dimension(values={"a": 1, "never": 0, "b": 2})
    assert draw(Taxonomy(dimensions={"d": never}, sampling=sampling), 0, index)["d"] != "never"


def test_a_fixed_dimension_has_one_value_which_need_not_be_listed():
    taxonomy = Taxonomy(dimensions={"topic": Dimension(fixed="tape robots"), "level": LEVELS})
    assert {draw(taxonomy, 0, index)["topic"] for index in range(20)} == {"tape robots"}
    assert combinations(taxonomy) == 2


def test_labels_come_in_the_order_of_the_taxonomy():
    assert list(draw(TAXONOMY, 0, 0)) == ["topic", "level"]


@pytest.mark.parametrize(
    ("dimension", "message"),
    [
        (Dimension(values={"a": -1}), "taxonomy.dimensions.d.values: 'a' has weight -1"),
        (Dimension(values={"a": math.nan}), "has weight nan"),
        (Dimension(values={"a": 0}), "has only weights of 0"),
        (Dimension(), "has no values"),
        (Dimension(fixed=" "), "fixed is empty"),
        (Dimension(values={"a": math.inf}, fixed="a"), "has weight inf"),
    ],
)
def test_a_dimension_that_cannot_be_drawn_from_is_a_recipe_error(dimension, message):
    with pytest.raises(RecipeError, match=message):
        check(Taxonomy(dimensions={"d": dimension}))
    with pytest.raises(RecipeError, match=message):
        draw(Taxonomy(dimensions={"d": dimension}), 0, 0)


def test_a_negative_index_is_refused():
    with pytest.raises(ValueError, match="numbered from 0"):
        draw(TAXONOMY, 0, -1)


KNOWN_INDEPENDENT = [
    ("sqlite", "easy"),
    ("logs", "easy"),
    ("sqlite", "hard"),
    ("sqlite", "easy"),
    ("sqlite", "easy"),
    ("sqlite", "hard"),
]
KNOWN_STRATIFIED = [("git", "easy"), ("logs", "easy"), ("sqlite", "hard"), ("sqlite", "easy")]
