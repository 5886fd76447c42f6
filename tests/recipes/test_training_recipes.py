"""The paper's training settings, and the table that maps them to keys and flags."""

import re

import pytest

from runner.compose import compose
from runner.compose.manual import key_names
from runner.compose.typed import to_config
from runner.domain.plain import plain
from runner.share import share_dir
from runner.training.compile.parser import Program, stored_flags

TABLE = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (share_dir("recipes") / "README.md").read_text().partition("OpenRLHF's flags\n")[2].splitlines()
    if line.startswith("| ")
][1:]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_the_table_is_there():
    assert len(TABLE) == 32
    assert {len(row) for row in TABLE} == {4}


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_every_key_and_flag_in_the_table_exists(row):
    keys, flags = quoted(row[2]), quoted(row[3])
    assert keys
    assert set(keys) <= set(key_names())
    assert flags or row[3].startswith(("none: ", "not possible"))
    assert set(flags) <= set(stored_flags().flags[Program.PPO])


def test_every_setting_of_the_papers_ppo_is_in_the_table():
    told = {key for row in TABLE for key in quoted(row[2])}
    ours = {"eval_before", "micro_batch_size", "infra_retries", "entropy_coef", "max_steps"}
    ours |= {"rollout_correction", "actor_gpus", "critic_gpus", "sanity"}
    sections = {"actor", "critic", "engines"}
    names = set(plain(compose("paper/qwen2.5-7b").ppo)) - ours - sections
    assert {f"ppo.{name}" for name in names} <= told


PUBLISHED = {
    # warm-up, gradient norm, temperature, live, GPUs, save, export, eval_before, policy
    "llama-3.2-3b": (10, 1.0, 0.7, 64, 4, 10, 20, True, "meta-llama/Llama-3.2-3B-Instruct"),
    "qwen2.5-7b": (20, 0.1, 0.6, 32, 4, 10, 20, True, "Qwen/Qwen2.5-7B-Instruct"),
    "qwen3-8b-sft": (20, 0.1, 0.6, 32, 8, 50, None, False, "open-thoughts/OpenThinker-Agent-v1-SFT"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_differs_between_the_papers_policies(name):
    config = compose(f"paper/{name}")
    ppo, training = config.ppo, config.training
    assert ppo is not None
    assert (
        *(ppo.actor.warmup_steps, ppo.actor.max_grad_norm, ppo.temperature, ppo.live_episodes),
        *(training.gpus_per_node, ppo.save_every, ppo.export_every, ppo.eval_before, training.policy),
    ) == PUBLISHED[name]
    assert (ppo.critic.warmup_steps, ppo.critic.max_grad_norm) == PUBLISHED[name][:2]
    assert config.sft is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_the_papers_policies_share(name):
    ppo = compose(f"paper/{name}").ppo
    assert ppo is not None
    assert (ppo.gae_lambda, ppo.gamma, ppo.clip_low, ppo.clip_high, ppo.value_clip) == (1.0, 1.0, 0.2, 0.28, 0.2)
    assert (ppo.kl_coef, ppo.token_mean_loss, ppo.normalize_rewards, ppo.normalize_advantages) == (
        0,
        False,
        True,
        False,
    )
    assert (ppo.actor.lr, ppo.critic.lr, ppo.actor.weight_decay, ppo.critic.weight_decay) == (5e-7, 1e-6, 0.01, 0.01)
    assert (ppo.epochs, ppo.updates_per_step, ppo.prompts_per_step, ppo.samples_per_prompt) == (10, 2, 16, 16)
    assert (ppo.mini_batch_prompts, ppo.critic_mini_batch_prompts, ppo.top_p) == (16, 8, 1.0)
    assert (ppo.eval_every, ppo.eval_samples, ppo.eval_temperature, ppo.reward_needs_done) == (50, 1, None, False)


RESULTS = {
    "llama-3.2-3b": (0.040, 0.182, 0.0, 0.022),
    "qwen2.5-7b": (0.107, 0.533, 0.022, 0.034),
    "qwen3-8b-sft": (0.426, 0.590, 0.011, 0.067),
}


@pytest.mark.parametrize("name", RESULTS)
def test_the_published_results_are_reference_values_with_their_source(name):
    reference = compose(f"paper/{name}").reference
    metrics = [f"eval/{where}/pass_at_1{when}" for where in ("dev", "terminalbench") for when in ("_before", "")]
    assert tuple(reference[metric].value for metric in metrics) == RESULTS[name]
    assert all("2601.16443" in entry.source for entry in reference.values())


def test_the_third_policy_may_also_be_made_by_sft_of_ones_own():
    config = compose("paper/qwen3-8b-sft", ["policy=qwen3-8b", "sft=solver"])
    assert config.sft is not None
    assert (config.training.policy, config.sft.episodes) == ("Qwen/Qwen3-8B", "solver")


def test_ppo_off_on_the_command_line_wins_over_a_recipes_own_settings():
    assert compose("paper/llama-3.2-3b", ["ppo=off"]).ppo is None


def test_any_key_of_a_chosen_section_can_be_set_on_the_command_line():
    config = compose("paper/qwen2.5-7b", ["ppo.max_steps=3", "ppo.engines.count=4", "+training.flags.ds.zpg=4"])
    assert config.ppo is not None
    assert (config.ppo.max_steps, config.ppo.engines.count, config.training.flags) == (3, 4, {"ds": {"zpg": 4}})
    assert to_config(plain(config)) == config
