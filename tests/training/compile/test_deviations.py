"""What OpenRLHF cannot do of a recipe is named; what it can is not."""

import pytest

from runner.schema_training import Ppo
from runner.training.compile import compile_ppo
from runner.training.compile.deviations import deviations_of

EVERYTHING_THERE_IS = Ppo(normalize_advantages=True, token_mean_loss=True)


def keys(ppo: Ppo) -> list[str]:
    return [deviation.key for deviation in deviations_of(ppo)]


def test_a_recipe_that_openrlhf_can_do_whole_has_none():
    assert keys(EVERYTHING_THERE_IS) == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"critic_mini_batch_prompts": 8}, "ppo.critic_mini_batch_prompts"),
        ({"normalize_advantages": False}, "ppo.normalize_advantages"),
        ({"token_mean_loss": False}, "ppo.token_mean_loss"),
        ({"normalize_rewards": True}, "ppo.normalize_rewards"),
        ({"eval_before": True, "eval_every": 50}, "ppo.eval_before"),
    ],
)
def test_each_is_met_by_its_own_setting(changes, key):
    ppo = Ppo(**({"normalize_advantages": True, "token_mean_loss": True} | changes))
    assert keys(ppo) == [key]


def test_a_critic_mini_batch_equal_to_the_actors_is_none():
    assert keys(Ppo(normalize_advantages=True, token_mean_loss=True, critic_mini_batch_prompts=16)) == []


def test_the_papers_recipes_meet_all_of_them(recipe, facts, table):
    command = compile_ppo(recipe(name="paper/qwen2.5-7b"), facts(), table)
    assert [deviation.key.removeprefix("ppo.") for deviation in command.deviations] == [
        *("critic_mini_batch_prompts", "normalize_advantages", "token_mean_loss", "normalize_rewards", "eval_before"),
    ]
    assert str(command.deviations[0]) == (
        "ppo.critic_mini_batch_prompts: critic mini-batches of 8 prompts "
        "-> one size serves actor and critic: 16 prompts"
    )
    third = compile_ppo(recipe(name="paper/qwen3-8b-sft"), facts(), table)
    assert "ppo.eval_before" not in [deviation.key for deviation in third.deviations]
