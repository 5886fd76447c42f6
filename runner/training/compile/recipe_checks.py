"""Checks of the training sections that need nothing but the recipe, so that it is refused before anything starts."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from runner.schema import Config
from runner.schema_training import Device, Optimizer, Ppo, Sft, Training
from runner.training.compile.layout import Layout, ppo_layout, sft_processes

ATTENTION = ("flash_attention_2", "flash_attention_3", "sdpa", "eager")
_POSITIVE = {
    "training": ("nodes", "gpus_per_node", "silence_seconds", "keep"),
    "sft": ("epochs", "batch_size", "micro_batch_size"),
    "ppo": (
        *("clip_low", "clip_high", "value_clip", "epochs", "prompts_per_step", "samples_per_prompt"),
        *("mini_batch_prompts", "updates_per_step", "micro_batch_size", "temperature", "live_episodes"),
        *("eval_samples", "save_every"),
    ),
    "ppo.engines": ("tensor_parallel",),
}
_POSITIVE_OR_NULL = {
    "sft": ("max_per_task", "max_tokens"),
    "ppo": ("max_steps", "critic_mini_batch_prompts", "export_every", "actor_gpus", "critic_gpus"),
    "ppo.engines": ("count",),
}
_NOT_NEGATIVE = {
    "ppo": ("kl_coef", "infra_retries"),
    "ppo.sanity": ("zero_reward_steps", "min_entropy"),
}
_SHARES = {
    "ppo": ("gae_lambda", "gamma", "top_p"),
    "ppo.engines": ("memory_share",),
    "ppo.sanity": ("repeated_token_share", "infra_share"),
}


def recipe_problems(config: Config) -> Iterator[str]:
    """What cannot work in ``training``, ``sft`` and ``ppo``, one message each; nothing where neither is wanted."""
    if config.sft is None and config.ppo is None:
        return
    yield from _ranges(config)
    yield from _training(config.training)
    if config.sft is not None:
        yield from _optimizer("sft.optimizer", config.sft.optimizer)
        yield from _sft(config, config.sft)
    if config.ppo is not None:
        yield from _optimizer("ppo.actor", config.ppo.actor)
        yield from _optimizer("ppo.critic", config.ppo.critic)
        yield from _ppo(config, config.ppo)


def _ranges(config: Config) -> Iterator[str]:
    for key, value in _values(config, _POSITIVE):
        if value <= 0:
            yield f"{key} is {value}, but must be more than 0"
    for key, value in _values(config, _POSITIVE_OR_NULL):
        if value is not None and value <= 0:
            yield f"{key} is {value}, but must be more than 0, or null"
    for key, value in _values(config, _NOT_NEGATIVE):
        if value < 0:
            yield f"{key} is {value}, but must be 0 or more"
    for key, value in _values(config, _SHARES):
        if not 0 <= value <= 1:
            yield f"{key} is {value}, but must be between 0 and 1"


def _values(config: Config, names: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, Any]]:
    for section, fields in names.items():
        found: Any = config
        for part in section.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield from ((f"{section}.{name}", getattr(found, name)) for name in fields)


def _optimizer(key: str, optimizer: Optimizer) -> Iterator[str]:
    for name in ("lr", "eps"):
        if getattr(optimizer, name) <= 0:
            yield f"{key}.{name} is {getattr(optimizer, name)}, but must be more than 0"
    for name in ("weight_decay", "max_grad_norm", "warmup_steps"):
        if getattr(optimizer, name) < 0:
            yield f"{key}.{name} is {getattr(optimizer, name)}, but must be 0 or more"
    if len(optimizer.betas) != 2 or not all(0 <= beta < 1 for beta in optimizer.betas):
        yield f"{key}.betas is {optimizer.betas}, but must be two numbers from 0 up to 1"
    if not 0 <= optimizer.min_lr_ratio <= 1:
        yield f"{key}.min_lr_ratio is {optimizer.min_lr_ratio}, but must be between 0 and 1"


def _training(training: Training) -> Iterator[str]:
    if not training.policy.strip():
        yield "training.policy is empty: name the model to train (policy=tiny, or training.policy=...)"
    if training.zero_stage not in range(4):
        yield f"training.zero_stage is {training.zero_stage}, but must be 0, 1, 2 or 3"
    if training.attention not in ATTENTION and "/" not in training.attention:
        near = get_close_matches(training.attention, ATTENTION, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        yield f"training.attention is {training.attention!r}, not one of {', '.join(ATTENTION)}{hint}"
    if training.packing and "flash" not in training.attention:
        yield f"training.packing needs flash attention, but training.attention is {training.attention}"
    if training.ray_address is not None and not training.ray_address.startswith(("http://", "https://", "ray://")):
        yield f"training.ray_address is {training.ray_address!r}, but must be a job server: http://head:8265"
    for name in training.env:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            yield f"training.env: {name!r} is no name of an environment variable"
    if training.device is Device.cpu:
        yield from _cpu(training)


def _cpu(training: Training) -> Iterator[str]:
    if training.attention not in ("sdpa", "eager"):
        yield f"training.attention is {training.attention}, but a CPU has only sdpa and eager (training=cpu sets it)"
    if training.zero_stage == 3:
        yield "training.zero_stage is 3, but a CPU needs 2 or less (training=cpu sets it)"
    if training.nodes > 1:
        yield f"training.nodes is {training.nodes}, but a CPU run is on one machine"


def _sft(config: Config, sft: Sft) -> Iterator[str]:
    processes = sft_processes(config.training)
    if sft.batch_size % (sft.micro_batch_size * processes):
        yield _uneven("sft.batch_size", sft.batch_size, "sft.micro_batch_size", sft.micro_batch_size, processes)
    if sft.max_tokens is not None and sft.max_tokens > config.agent.context_tokens:
        yield f"sft.max_tokens ({sft.max_tokens}) is more than agent.context_tokens ({config.agent.context_tokens})"
    if sft.save_every == 0 or sft.save_every < -1:
        yield f"sft.save_every is {sft.save_every}, but must be more than 0, or -1 for only the end"
    if sft.episodes != "solver" and not (Path(sft.episodes).is_file() and sft.episodes.endswith(".jsonl")):
        yield f"sft.episodes is {sft.episodes!r}, but must be solver, or an existing .jsonl file"


def _ppo(config: Config, ppo: Ppo) -> Iterator[str]:
    layout = ppo_layout(config.training, ppo)
    yield from _gpus(config.training, ppo, layout)
    yield from _batches(ppo, layout)
    yield from _engines(config, ppo, layout)
    if ppo.eval_every == 0 or ppo.eval_every < -1:
        yield f"ppo.eval_every is {ppo.eval_every}, but must be more than 0, or -1 for never"
    if ppo.eval_every > 0 and config.dataset.dev_tasks == 0:
        yield f"ppo.eval_every is {ppo.eval_every}, but dataset.dev_tasks is 0: there is nothing to evaluate on"
    if ppo.eval_temperature is not None and ppo.eval_temperature < 0:
        yield f"ppo.eval_temperature is {ppo.eval_temperature}, but must be 0 or more, or null"
    if ppo.export_every is not None and ppo.export_every % ppo.save_every:
        yield f"ppo.export_every ({ppo.export_every}) must be a multiple of ppo.save_every ({ppo.save_every})"
    if config.dataset.max_prompt_tokens + config.agent.turn_tokens > config.agent.context_tokens:
        yield (
            f"dataset.max_prompt_tokens ({config.dataset.max_prompt_tokens}) and agent.turn_tokens "
            f"({config.agent.turn_tokens}) do not fit into agent.context_tokens ({config.agent.context_tokens})"
        )


def _batches(ppo: Ppo, layout: Layout) -> Iterator[str]:
    """Whole batches only: what is left over would be accumulated into the next optimizer step."""
    if ppo.mini_batch_prompts <= 0 or ppo.micro_batch_size <= 0:
        return
    if ppo.prompts_per_step % ppo.mini_batch_prompts:
        yield (
            f"ppo.prompts_per_step ({ppo.prompts_per_step}) must be a multiple of ppo.mini_batch_prompts "
            f"({ppo.mini_batch_prompts}), or what is left over runs into the next optimizer step"
        )
    batch = ppo.mini_batch_prompts * ppo.samples_per_prompt
    for part, world in (("actor", layout.actor_world), ("critic", layout.critic_world)):
        if world > 0 and batch % (ppo.micro_batch_size * world):
            what = f"ppo.mini_batch_prompts x ppo.samples_per_prompt (for the {part})"
            yield _uneven(what, batch, "ppo.micro_batch_size", ppo.micro_batch_size, world)


def _uneven(what: str, batch: int, micro_key: str, micro: int, processes: int) -> str:
    return (
        f"{what} is {batch} episodes, but must be a multiple of {micro * processes}: {micro} of {micro_key} on each of "
        f"{processes} GPU{'s' if processes > 1 else ''}"
    )


def _gpus(training: Training, ppo: Ppo, layout: Layout) -> Iterator[str]:
    if layout.logical or ppo.engines.tensor_parallel <= 0:
        return
    gpus = training.gpus_per_node
    if not ppo.colocate and gpus - layout.actor - layout.critic < 1:
        yield (
            f"training.gpus_per_node is {gpus}: {layout.actor} for the actor and {layout.critic} for the critic leave "
            "none for the engines; raise it, or set ppo.colocate=true"
        )
        return
    held, parallel = layout.engines * layout.tensor_parallel, layout.tensor_parallel
    per_node = gpus if ppo.colocate else gpus - layout.actor - layout.critic
    if per_node % parallel:
        yield f"ppo.engines.tensor_parallel is {parallel}, but does not divide a node's {per_node} GPUs for engines"
    elif ppo.colocate and held != layout.engine_gpus:
        yield (
            f"ppo.engines.count is {layout.engines} (x {parallel} GPUs), but with ppo.colocate engines use all "
            f"{layout.engine_gpus} GPUs: set it to {layout.engine_gpus // parallel}, or null"
        )
    elif held > layout.engine_gpus:
        yield f"ppo.engines.count is {layout.engines} (x {parallel} GPUs), but {layout.engine_gpus} GPUs are left"


def _engines(config: Config, ppo: Ppo, layout: Layout) -> Iterator[str]:
    if config.training.device is Device.cpu and not ppo.engines.eager:
        yield "ppo.engines.eager is false, but a CPU has no CUDA graphs (ppo=cpu sets it)"
    if config.training.device is Device.cpu and (ppo.engines.count or 1) * ppo.engines.tensor_parallel != 1:
        yield "ppo.engines: a CPU run has one engine, on one process"
    if 0 < ppo.live_episodes < layout.engines:
        yield f"ppo.live_episodes is {ppo.live_episodes}, but there are {layout.engines} engines to keep busy"
