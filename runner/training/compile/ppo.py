"""The ``ppo`` section as a command of ``openrlhf.cli.train_ppo_ray``."""

from collections.abc import Iterator
from itertools import chain

from runner.schema import Config
from runner.schema_training import Ppo
from runner.training.compile.arithmetic import PpoSteps, ppo_steps
from runner.training.compile.checks import check_facts
from runner.training.compile.command import Command, Facts, Flag, flag, switches
from runner.training.compile.deviations import deviations_of
from runner.training.compile.layout import layout_lines, ppo_layout
from runner.training.compile.notes import ppo_notes, ppo_warnings
from runner.training.compile.overrides import finish
from runner.training.compile.parser import FlagTable, Program, installed_flags
from runner.training.compile.shared_flags import (
    checkpoint_flags,
    environment,
    logger_flags,
    machine_flags,
    optimizer_flags,
)


def compile_ppo(config: Config, facts: Facts, table: FlagTable | None = None) -> Command:
    """The command that trains what ``config.ppo`` says.

    ``table`` is what flags are checked against; None asks the installed OpenRLHF. Raises RecipeError for a setting that
    cannot work with this much data or this model, MissingRequirement for an absent or unknown OpenRLHF.
    """
    ppo = config.ppo
    assert ppo is not None, "the recipe has no ppo section"
    table = table or installed_flags(config)
    check_facts(config, facts)
    steps = ppo_steps(ppo, facts.rows)
    checked = finish(_flags(config, ppo, facts, steps), config.training.flags, table, Program.PPO)
    return Command(
        module=Program.PPO.module,
        argv=checked.argv,
        env=environment(config, facts.model),
        rows=steps.prompts,
        steps=steps.rollout_steps,
        optimizer_steps=steps.optimizer_steps,
        episodes=steps.rollout_episodes + steps.evaluations * facts.eval_rows * ppo.eval_samples,
        layout=tuple(layout_lines(config, ppo)),
        checked=table.source,
        notes=(*ppo_notes(ppo, facts, steps), *checked.notes),
        warnings=tuple(ppo_warnings(config, ppo, facts, steps)),
        deviations=tuple(deviations_of(ppo)),
        flags=checked.flags,
    )


def _flags(config: Config, ppo: Ppo, facts: Facts, steps: PpoSteps) -> Iterator[Flag]:
    return chain(
        _models(facts),
        _gpus(config, ppo),
        _engines(config, ppo),
        _data(config, facts),
        _rollout(config, ppo, steps),
        _advantages(ppo),
        _actor(ppo),
        optimizer_flags("actor.", "ppo.actor", ppo.actor, steps.optimizer_steps),
        _critic(ppo),
        optimizer_flags("critic.", "ppo.critic", ppo.critic, steps.optimizer_steps),
        machine_flags(config, "actor.gradient_checkpointing_enable"),
        _evaluation(ppo, facts),
        checkpoint_flags(config, facts, ppo.save_every, "ppo"),
        switches({("ckpt.save_hf", "ppo.export_every"): ppo.export_every is not None}),
        logger_flags(facts, "ppo"),
    )


def _models(facts: Facts) -> Iterator[Flag]:
    yield flag("actor.model_name_or_path", "training.policy", facts.model)
    yield flag("critic.model_name_or_path", "training.policy", facts.model)
    if facts.agent_func is not None:
        yield flag("train.agent_func_path", "ppo", facts.agent_func)


def _gpus(config: Config, ppo: Ppo) -> Iterator[Flag]:
    layout = ppo_layout(config.training, ppo)
    yield flag("actor.num_nodes", "training.nodes", layout.nodes)
    yield flag("actor.num_gpus_per_node", "training.gpus_per_node", layout.actor)
    yield flag("critic.num_nodes", "training.nodes", layout.nodes)
    yield flag("critic.num_gpus_per_node", "training.gpus_per_node", layout.critic)
    if ppo.kl_coef > 0:
        yield flag("ref.num_nodes", "training.nodes", layout.nodes)
        yield flag("ref.num_gpus_per_node", "training.gpus_per_node", layout.actor)
    yield from switches(
        {
            ("train.colocate_all", "ppo.colocate"): layout.shared,
            ("ds.enable_sleep", "ppo.colocate"): layout.shared,
            ("vllm.enable_sleep", "ppo.colocate"): layout.shared,
            ("train.colocate_actor_ref", "ppo.kl_coef"): ppo.kl_coef > 0 and not layout.shared,
        }
    )


def _engines(config: Config, ppo: Ppo) -> Iterator[Flag]:
    layout = ppo_layout(config.training, ppo)
    yield flag("vllm.num_engines", "ppo.engines.count", layout.engines)
    yield flag("vllm.tensor_parallel_size", "ppo.engines.tensor_parallel", layout.tensor_parallel)
    yield flag("vllm.gpu_memory_utilization", "ppo.engines.memory_share", ppo.engines.memory_share)
    yield from switches(
        {
            ("vllm.enforce_eager", "ppo.engines.eager"): ppo.engines.eager,
            ("vllm.enable_prefix_caching", "ppo.engines.prefix_caching"): ppo.engines.prefix_caching,
        }
    )


def _data(config: Config, facts: Facts) -> Iterator[Flag]:
    yield flag("data.prompt_dataset", "dataset", facts.data)
    yield flag("data.input_key", "dataset", "input")
    yield flag("data.label_key", "dataset", "label")
    yield flag("data.apply_chat_template", "dataset")
    yield flag("data.max_len", "agent.context_tokens", config.agent.context_tokens)


def _rollout(config: Config, ppo: Ppo, steps: PpoSteps) -> Iterator[Flag]:
    yield flag("rollout.batch_size", "ppo.prompts_per_step", ppo.prompts_per_step)
    yield flag("rollout.n_samples_per_prompt", "ppo.samples_per_prompt", ppo.samples_per_prompt)
    yield flag("rollout.micro_batch_size", "ppo.micro_batch_size", ppo.micro_batch_size)
    yield flag("rollout.max_new_tokens", "agent.turn_tokens", config.agent.turn_tokens)
    yield flag("rollout.temperature", "ppo.temperature", ppo.temperature)
    yield flag("rollout.top_p", "ppo.top_p", ppo.top_p)
    yield flag("train.num_episodes", "ppo.epochs", steps.passes)
    yield flag("train.batch_size", "ppo.mini_batch_prompts", steps.batch)
    yield flag("train.micro_batch_size", "ppo.micro_batch_size", ppo.micro_batch_size)
    yield flag("train.max_epochs", "ppo.updates_per_step", ppo.updates_per_step)


def _advantages(ppo: Ppo) -> Iterator[Flag]:
    yield flag("algo.advantage.estimator", "ppo", "gae")
    yield flag("algo.advantage.lambd", "ppo.gae_lambda", ppo.gae_lambda)
    yield flag("algo.advantage.gamma", "ppo.gamma", ppo.gamma)
    yield from switches({("algo.advantage.no_std_norm", "ppo.normalize_advantages"): not ppo.normalize_advantages})
    if ppo.rollout_correction:
        yield flag("algo.advantage.is_correction_level", "ppo.rollout_correction", "token")
    yield flag("algo.kl.init_coef", "ppo.kl_coef", ppo.kl_coef)


def _actor(ppo: Ppo) -> Iterator[Flag]:
    mean = "token-mean" if ppo.token_mean_loss else "seq-mean-token-mean"
    yield flag("actor.eps_clip_low_high", "ppo.clip_low", ppo.clip_low, ppo.clip_high)
    yield flag("actor.loss_agg_mode", "ppo.token_mean_loss", mean)
    if ppo.entropy_coef is not None:
        yield flag("actor.entropy_coef", "ppo.entropy_coef", ppo.entropy_coef)


def _critic(ppo: Ppo) -> Iterator[Flag]:
    yield flag("critic.value_clip", "ppo.value_clip", ppo.value_clip)


def _evaluation(ppo: Ppo, facts: Facts) -> Iterator[Flag]:
    if ppo.eval_every <= 0 or not facts.eval_rows or facts.eval_data is None:
        return
    yield flag("eval.dataset", "dataset.dev_tasks", facts.eval_data)
    yield flag("eval.steps", "ppo.eval_every", ppo.eval_every)
    yield flag("eval.n_samples_per_prompt", "ppo.eval_samples", ppo.eval_samples)
    temperature = ppo.eval_temperature if ppo.eval_temperature is not None else ppo.temperature
    yield flag("eval.temperature", "ppo.eval_temperature", temperature)
