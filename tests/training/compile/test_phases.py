"""Which training phases a recipe has, and what they read."""

import pytest

from runner.domain.errors import RecipeError
from runner.phases.registry import OPTIONAL, PHASES
from runner.pipeline.compile import compile_recipe


def names(config) -> list[str]:
    return [step.name for step in compile_recipe(config)]


def step_of(config, name):
    return next(step for step in compile_recipe(config) if step.name == name)


def test_phases_whose_section_is_null_are_left_out(recipe):
    made = ["generate", "filter", "dataset"]
    assert names(recipe("ppo=off")) == [*made, "analyze"]
    assert names(recipe()) == [*made, "ppo", "analyze"]
    assert names(recipe("ppo=off", "sft=quick")) == [*made, "sft", "analyze"]
    assert names(recipe("sft=quick")) == [*made, "sft", "ppo", "analyze"]
    assert list(PHASES)[3:6] == list(OPTIONAL)


def test_ppo_reads_sft_only_where_there_is_one(recipe):
    alone, after = (step_of(recipe(*words), "ppo") for words in ((), ("sft=quick",)))
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
    assert step_of(one, "ppo").fingerprint == step_of(other, "ppo").fingerprint


def test_the_report_is_made_of_whatever_the_recipe_has(recipe):
    short = step_of(recipe("phases=[generate, filter, analyze]"), "analyze")
    assert set(short.upstream) == {"generate", "filter"}
    assert set(step_of(recipe("sft=quick"), "analyze").upstream) == {"generate", "filter", "dataset", "sft", "ppo"}


def test_what_the_report_says_of_the_recipe_makes_it_anew_and_nothing_else(recipe):
    before, after = (compile_recipe(recipe(*words)) for words in ((), ("description=Another",)))
    assert [a.fingerprint == b.fingerprint for a, b in zip(before, after, strict=True)] == [*[True] * 4, False]
