"""The flags that both trainers have: optimizer, machine, seed, checkpoints; and the trainer's environment."""

from collections.abc import Iterator
from pathlib import Path

from runner.schema import Config
from runner.schema_training import Device, Optimizer, Schedule
from runner.training.compile.arithmetic import warmup_ratio
from runner.training.compile.command import Facts, Flag, flag, switches

_SCHEDULES = {
    Schedule.constant: "constant_with_warmup",
    Schedule.linear: "linear",
    Schedule.cosine: "cosine_with_min_lr",
}
"""Names of ``transformers.get_scheduler``; its own ``constant`` has no warm-up."""

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
_CPU = {
    "DS_ACCELERATOR": "cpu",
    "OMP_NUM_THREADS": "1",  # a tiny model is slower with more
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "RAY_DISABLE_METRICS_COLLECTION": "1",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",  # this and the next save more than a gigabyte
    "MALLOC_ARENA_MAX": "2",
}


_WHOLE = 2
"""OpenRLHF deletes the oldest checkpoint before it writes the next one: of fewer than two, none would be whole then."""


def optimizer_flags(prefix: str, key: str, optimizer: Optimizer, steps: int) -> Iterator[Flag]:
    """Adam and its schedule. ``prefix`` is ``actor.``, ``critic.`` or, for SFT, empty; ``steps`` of the optimizer."""
    yield flag(f"{prefix}adam.lr", f"{key}.lr", optimizer.lr)
    yield flag(f"{prefix}adam.betas", f"{key}.betas", *optimizer.betas)
    yield flag(f"{prefix}adam.eps", f"{key}.eps", optimizer.eps)
    yield flag(f"{prefix}adam.weight_decay", f"{key}.weight_decay", optimizer.weight_decay)
    yield flag(f"{prefix}max_norm", f"{key}.max_grad_norm", optimizer.max_grad_norm)
    yield flag(f"{prefix}lr_scheduler", f"{key}.schedule", _SCHEDULES[optimizer.schedule])
    yield flag(f"{prefix}lr_warmup_ratio", f"{key}.warmup_steps", warmup_ratio(optimizer.warmup_steps, steps))
    if optimizer.schedule is Schedule.cosine:
        yield flag(f"{prefix}min_lr_ratio", f"{key}.min_lr_ratio", optimizer.min_lr_ratio)


def warmup_note(key: str, optimizer: Optimizer, steps: int) -> str:
    """The arithmetic of a warm-up, in words."""
    if not optimizer.warmup_steps:
        return f"{key}: no warm-up"
    ratio = warmup_ratio(optimizer.warmup_steps, steps)
    return (
        f"{key}: warm-up of {optimizer.warmup_steps} of {steps:,} optimizer steps -> ratio {ratio} "
        f"(ceil({steps:,} x {ratio}) = {optimizer.warmup_steps})"
    )


def warmup_warnings(key: str, optimizer: Optimizer, steps: int) -> Iterator[str]:
    if optimizer.warmup_steps > steps:
        yield (
            f"{key}.warmup_steps is {optimizer.warmup_steps}, but there are only {steps} optimizer steps: the learning "
            f"rate ends at {steps / optimizer.warmup_steps:.0%} of {optimizer.lr}"
        )


def machine_flags(config: Config, checkpointing: str) -> Iterator[Flag]:
    """DeepSpeed, attention and seed. ``checkpointing`` is the program's name for gradient checkpointing."""
    training = config.training
    yield flag("ds.zero_stage", "training.zero_stage", training.zero_stage)
    yield flag("ds.attn_implementation", "training.attention", training.attention)
    yield from switches(
        {
            (checkpointing, "training.gradient_checkpointing"): training.gradient_checkpointing,
            ("ds.packing_samples", "training.packing"): training.packing,
            ("ds.adam_offload", "training.adam_offload"): training.adam_offload,
        }
    )
    yield flag("train.seed", "training.seed", training.seed if training.seed is not None else config.seed)


def checkpoint_flags(config: Config, facts: Facts, save_every: int, section: str) -> Iterator[Flag]:
    """Where checkpoints and the model go, and whether to go on from one."""
    yield flag("ckpt.path", "outputs", facts.checkpoints)
    yield flag("ckpt.output_dir", "outputs", facts.output)
    yield flag("ckpt.save_steps", f"{section}.save_every", save_every)
    yield flag("ckpt.max_num", "training.keep", max(config.training.keep, _WHOLE))
    yield from switches({("ckpt.load_enable", f"{section}.save_every"): facts.resume})


def logger_flags(facts: Facts, name: str) -> Iterator[Flag]:
    """TensorBoard under a fixed name: a resumed run writes beside what it wrote before."""
    yield flag("logger.tensorboard_dir", "outputs", facts.tensorboard)
    yield flag("logger.wandb.run_name", "outputs", name)


def environment(config: Config, model: str) -> dict[str, str]:
    """What the trainer's environment gets besides the user's own variables, which win."""
    cpu = _CPU if config.training.device is Device.cpu else {}
    offline = {"HF_HUB_OFFLINE": "1"} if Path(model).is_absolute() else {}
    return {**_QUIET, **cpu, **offline, **config.training.env}
