"""Which part of PPO runs on which GPUs, as OpenRLHF's placement wants it."""

from dataclasses import dataclass

from runner.schema import Config
from runner.schema_training import Device, Ppo, Training
from runner.training.compile.words import counted


@dataclass(frozen=True, kw_only=True)
class Layout:
    """GPUs by part. ``engine_gpus`` are those of all engines together."""

    nodes: int
    actor: int
    """GPUs per node."""
    critic: int
    engines: int
    tensor_parallel: int
    engine_gpus: int
    shared: bool
    """All parts on the same GPUs, in turns."""
    logical: bool = False
    """No GPUs at all: Ray's counters on a CPU."""

    @property
    def actor_world(self) -> int:
        """Processes of the actor; each holds its share of a batch."""
        return self.nodes * self.actor

    @property
    def critic_world(self) -> int:
        return self.nodes * self.critic


def ppo_layout(training: Training, ppo: Ppo) -> Layout:
    """The layout a recipe asks for, whether it fits or not: ``checks`` says."""
    if training.device is Device.cpu:
        return Layout(
            nodes=1, actor=1, critic=1, engines=1, tensor_parallel=1, engine_gpus=1, shared=False, logical=True
        )
    gpus, parallel = training.gpus_per_node, ppo.engines.tensor_parallel
    actor = critic = gpus
    if not ppo.colocate:
        actor = ppo.actor_gpus if ppo.actor_gpus is not None else max(1, gpus // 3)
        critic = ppo.critic_gpus if ppo.critic_gpus is not None else max(1, gpus // 3)
    free = training.nodes * (gpus if ppo.colocate else gpus - actor - critic)
    return Layout(
        nodes=training.nodes,
        actor=actor,
        critic=critic,
        engines=ppo.engines.count if ppo.engines.count is not None else max(0, free) // parallel,
        tensor_parallel=parallel,
        engine_gpus=free,
        shared=ppo.colocate,
    )


def sft_processes(training: Training) -> int:
    """One process a GPU, on one node: SFT is short, and its launcher starts on one machine."""
    return 1 if training.device is Device.cpu else training.gpus_per_node


def layout_lines(config: Config, ppo: Ppo) -> list[str]:
    """The layout in words, for the plan."""
    layout = ppo_layout(config.training, ppo)
    if layout.logical:
        return ["CPU: one process each for actor, critic and vLLM engine"]
    engines = f"{counted(layout.engines, 'vLLM engine')} x {counted(layout.tensor_parallel, 'GPU')}"
    machines = f"{counted(layout.nodes, 'node')} x {counted(config.training.gpus_per_node, 'GPU')}"
    reference = ", reference model" if ppo.kl_coef > 0 else ""
    if layout.shared:
        return [f"{machines}, shared in turns by actor, critic{reference} and {engines}"]
    held = " (and the reference model)" if ppo.kl_coef > 0 else ""
    return [f"{machines}; per node {layout.actor} for the actor{held}, {layout.critic} for the critic; {engines}"]
