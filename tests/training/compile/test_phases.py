"""Which training phases a recipe has, and what they read."""

import pytest

from runner.domain.errors import RecipeError
from runner.phases.registry import OPTIONAL, PHASES
from runner.pipeline.compile import compile_recipe


def names(config) -> list[str]:
    return [step.name for step in compile_recipe(config)]


def test_phases_whose_section_is_null_are_left_out(recipe):
    made = ["generate", "filter", "dataset"]
    assert names(recipe("ppo=off")) == made
    assert names(recipe()) == [*made, "ppo"]
    assert names(recipe("ppo=off", "sft=quick")) == [*made, "sft"]
    assert names(recipe("sft=quick")) == [*made, "sft", "ppo"]
    assert list(PHASES)[3:5] == list(OPTIONAL)


def test_ppo_reads_sft_only_where_there_is_one(recipe):
    alone, after = compile_recipe(recipe())[-1], compile_recipe(recipe("sft=quick"))[-1]
    assert set(alone.upstream) == {"dataset"}
    assert set(after.upstream) == {"dataset", "sft"}
    assert alone.fingerprint != after.fingerprint


def test_ppo_cannot_leave_out_the_sft_that_the_recipe_has(recipe):
    with pytest.raises(RecipeError, match="ppo needs sft before it"):
        recipe("sft=quick", "phases=[generate, filter, dataset, ppo]")


def test_training_can_be_left_for_later(recipe):
    assert names(recipe("sft=quick", "phases=[generate, filter]")) == ["generate", "filter"]


def test_the_machine_does_not_change_what_ppo_makes(recipe):
    one, other = recipe(name="paper/qwen2.5-7b"), recipe("training.nodes=2", name="paper/qwen2.5-7b")
    assert compile_recipe(one)[-1].fingerprint == compile_recipe(other)[-1].fingerprint
