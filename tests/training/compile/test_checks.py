"""Settings that cannot work are refused before anything starts, in one line that names the key."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.errors import RecipeError
from runner.schema import Config
from runner.schema_training import Ppo, Training
from runner.training.compile import compile_ppo, compile_sft
from runner.training.compile.layout import ppo_layout
from runner.training.compile.recipe_checks import recipe_problems

GPU = [
    ("training.nodes=0", "training.nodes is 0, but must be more than 0"),
    ("training.policy=''", "training.policy is empty: name the model to train"),
    ("training.attention=flash_attention", "; did you mean flash_attention_"),
    (
        "training={attention: sdpa, packing: true}",
        "training.packing needs flash attention, but training.attention is sdpa",
    ),
    ("training.zero_stage=4", "training.zero_stage is 4, but must be 0, 1, 2 or 3"),
    ("training.ray_address=head:8265", "must be a job server: http://head:8265"),
    ("+training.env={A-B: x}", "'A-B' is no name of an environment variable"),
    ("training.keep=0", "training.keep is 0"),
    ("ppo.clip_high=0", "ppo.clip_high is 0.0, but must be more than 0"),
    ("ppo.gae_lambda=1.1", "ppo.gae_lambda is 1.1, but must be between 0 and 1"),
    ("ppo.temperature=0", "ppo.temperature is 0.0, but must be more than 0"),
    ("ppo.max_steps=0", "ppo.max_steps is 0, but must be more than 0, or null"),
    ("ppo.kl_coef=-1", "ppo.kl_coef is -1.0, but must be 0 or more"),
    ("ppo.sanity.infra_share=2", "ppo.sanity.infra_share is 2.0, but must be between 0 and 1"),
    ("ppo.engines.memory_share=1.5", "ppo.engines.memory_share is 1.5, but must be between 0 and 1"),
    ("ppo.actor.lr=0", "ppo.actor.lr is 0.0, but must be more than 0"),
    ("ppo.critic.warmup_steps=-1", "ppo.critic.warmup_steps is -1, but must be 0 or more"),
    ("ppo.actor.betas=[0.9]", "ppo.actor.betas is [0.9], but must be two numbers"),
    ("ppo.prompts_per_step=24", "ppo.prompts_per_step (24) must be a multiple of ppo.mini_batch_prompts (16)"),
    (
        "ppo.micro_batch_size=3",
        "(for the actor) is 256 episodes, but must be a multiple of 12: 3 of ppo.micro_batch_size on",
    ),
    ("training.gpus_per_node=6", "is 256 episodes, but must be a multiple of 6"),
    ("ppo.engines.count=2", "with ppo.colocate engines use all 4 GPUs: set it to 4, or null"),
    ("ppo.engines.tensor_parallel=3", "tensor_parallel is 3, but does not divide a node's 4 GPUs"),
    ("ppo={colocate: false, actor_gpus: 2, critic_gpus: 2}", "2 for the actor and 2 for the critic leave none"),
    ("ppo={colocate: false, engines: {count: 3}}", "ppo.engines.count is 3 (x 1 GPUs), but 2 GPUs are left"),
    ("ppo.live_episodes=3", "ppo.live_episodes is 3, but there are 4 engines"),
    ("ppo.eval_every=0", "ppo.eval_every is 0, but must be more than 0, or -1 for never"),
    ("dataset.dev_tasks=0", "ppo.eval_every is 50, but dataset.dev_tasks is 0"),
    ("ppo.eval_temperature=-1", "ppo.eval_temperature is -1.0"),
    ("ppo.export_every=15", "ppo.export_every (15) must be a multiple of ppo.save_every (10)"),
    ("dataset.max_prompt_tokens=15000", "do not fit into agent.context_tokens (16384)"),
]
CPU = [
    ("training.attention=flash_attention_2", "a CPU has only sdpa and eager"),
    ("training.zero_stage=3", "a CPU needs 2 or less"),
    ("training.nodes=2", "a CPU run is on one machine"),
    ("ppo.engines.eager=false", "a CPU has no CUDA graphs"),
    ("ppo.engines.count=2", "a CPU run has one engine"),
    ("sft.batch_size=9", "sft.batch_size is 9 episodes, but must be a multiple of 8"),
    ("sft.max_tokens=20000", "sft.max_tokens (20000) is more than agent.context_tokens (16384)"),
    ("sft.save_every=0", "sft.save_every is 0"),
    ("sft.episodes=traces.jsonl", "sft.episodes is 'traces.jsonl', but must be solver, or an existing .jsonl file"),
    ("sft.epochs=0", "sft.epochs is 0"),
    ("sft.max_per_task=0", "sft.max_per_task is 0, but must be more than 0, or null"),
    ("sft.optimizer.min_lr_ratio=2", "sft.optimizer.min_lr_ratio is 2.0, but must be between 0 and 1"),
]


@pytest.mark.parametrize(("override", "message"), GPU)
def test_what_cannot_work_on_gpus_is_refused(override, message, recipe):
    refused(lambda: recipe(override, name="paper/qwen2.5-7b"), message)


@pytest.mark.parametrize(("override", "message"), CPU)
def test_what_cannot_work_on_a_cpu_is_refused(override, message, recipe):
    refused(lambda: recipe("training=cpu", "sft=quick", "ppo=cpu", "policy=tiny", override), message)


def refused(make, message):
    with pytest.raises(RecipeError) as caught:
        make()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_training_its_settings_are_nobodys_business():
    assert list(recipe_problems(Config(training=Training(zero_stage=9)))) == []


@given(
    prompts=st.integers(1, 64),
    mini=st.integers(1, 64),
    samples=st.integers(1, 16),
    micro=st.integers(1, 8),
    gpus=st.integers(1, 16),
    nodes=st.integers(1, 4),
    colocate=st.booleans(),
)
def test_an_accepted_recipe_accumulates_whole_batches_on_every_gpu(
    prompts, mini, samples, micro, gpus, nodes, colocate
):
    ppo = Ppo(
        prompts_per_step=prompts,
        mini_batch_prompts=mini,
        samples_per_prompt=samples,
        micro_batch_size=micro,
        colocate=colocate,
    )
    training = Training(policy="m", gpus_per_node=gpus, nodes=nodes)
    if list(recipe_problems(Config(training=training, ppo=ppo))):
        return
    layout = ppo_layout(training, ppo)
    batch, rollout = mini * samples, prompts * samples
    assert rollout % batch == 0
    for world in (layout.actor_world, layout.critic_world):
        assert world > 0
        accumulation, rest = divmod(batch, micro * world)
        assert accumulation >= 1
        assert rest == 0
        assert rollout // micro >= world  # OpenRLHF's own assertion
        assert rollout // micro % world == 0  # else some rank gets more than its share
    assert 0 < layout.engines * layout.tensor_parallel <= layout.engine_gpus


@given(prompts=st.integers(1, 32), mini=st.integers(1, 32))
def test_the_sizes_are_refused_exactly_when_they_do_not_divide(prompts, mini):
    ppo = Ppo(prompts_per_step=prompts, mini_batch_prompts=mini, colocate=True)
    found = list(recipe_problems(Config(training=Training(policy="m", gpus_per_node=1), ppo=ppo)))
    assert any("must be a multiple of ppo.mini_batch_prompts" in text for text in found) == bool(prompts % mini)


def checkpoint(folder: Path, **numbers: int) -> str:
    known = {"num_attention_heads": 4, "hidden_size": 128, "max_position_embeddings": 32768}
    (folder / "config.json").write_text(json.dumps(known | numbers))
    return str(folder)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"hidden_size": 64}, "its head_dim is 16, and vLLM on a CPU takes only 32, 64,"),
        ({"head_dim": 48}, "its head_dim is 48"),
        ({"max_position_embeddings": 2048}, "the policy's own context is 2,048 tokens"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(numbers, message, recipe, facts, table, tmp_path):
    model = checkpoint(tmp_path, **numbers)
    refused(lambda: compile_ppo(recipe(), facts(model=model, rows=8), table), message)


def test_heads_that_engines_cannot_share_are_refused(recipe, facts, table, tmp_path):
    model = checkpoint(tmp_path, num_attention_heads=6, hidden_size=384)
    config = recipe("ppo.engines.tensor_parallel=4", name="paper/qwen2.5-7b")
    refused(lambda: compile_ppo(config, facts(model=model), table), "does not divide the policy's 6 attention heads")


def test_a_checkpoint_that_fits_is_taken(recipe, facts, table, tmp_path):
    compile_ppo(recipe(), facts(model=checkpoint(tmp_path), rows=8), table)


def test_paths_that_openrlhf_would_split_are_refused(recipe, facts, table):
    odd = facts(data=Path("/out/a,b/train.jsonl"), rows=8)
    refused(lambda: compile_ppo(recipe(), odd, table), "takes no dataset path with a comma or an @ in it")


@pytest.mark.parametrize(
    ("override", "warning"),
    [
        ("ppo.gae_lambda=0.95", "(0.95^200 = 4e-05 over an observation of 200 tokens)"),
        ("ppo.top_p=0.9", "ppo.top_p is 0.9: the trainer's log-probabilities are those of the whole distribution"),
        ("ppo.entropy_coef=null", "ppo.sanity.min_entropy watches nothing"),
        ("ppo.save_every=1000", "no checkpoint on the way"),
    ],
)
def test_what_is_allowed_and_disappoints_is_said(override, warning, recipe, facts, table):
    command = compile_ppo(recipe(override), facts(rows=8), table)
    assert any(warning in text for text in command.warnings)


def test_the_shipped_settings_disappoint_nobody(recipe, facts, table):
    assert compile_ppo(recipe(name="paper/qwen2.5-7b"), facts(), table).warnings == ()
    assert compile_sft(recipe("sft=quick"), facts(rows=40), table).warnings == ()
