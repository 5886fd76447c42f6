"""What training would do, before it runs: the commands, compiled with the sizes that are known or expected."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from runner.schema import Config
from runner.training.compile.arithmetic import NotEnoughData
from runner.training.compile.command import Command, Facts
from runner.training.compile.parser import FlagTable, installed_flags, known_flags
from runner.training.compile.ppo import compile_ppo
from runner.training.compile.sft import compile_sft

Compile = Callable[[Config, Facts, FlagTable | None], Command]

_PLENTY = 1_000_000
EPISODE_SECONDS = 60.0
"""How long an episode holds a container, about: six turns of a 7B model. A guess until a run has measured it."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How much data training gets."""

    train: int
    dev: int
    passing: int
    """Episodes for SFT."""
    known: bool
    """Counted in finished phases; false: expected."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """One training phase."""

    phase: str
    """``sft`` or ``ppo``."""
    submit: tuple[str, ...] = ()
    """What hands the command to a cluster; empty on this machine."""
    python: str
    command: Command | None
    """None: it does not fit the expected data, and ``trouble`` says why."""
    trouble: str = ""
    episode_seconds: float = EPISODE_SECONDS
    """What an episode is taken to last; less where ``agent.episode_seconds`` is less."""
    live_episodes: int = 1

    @property
    def container_hours(self) -> float:
        """Of all episodes together."""
        return self.command.episodes * self.episode_seconds / 3600 if self.command else 0.0

    @property
    def hours_at_once(self) -> float:
        """The same with all live episodes at work: rollout time on the clock, at best."""
        return self.container_hours / self.live_episodes


def check_trainer(config: Config) -> None:
    """Compile a recipe's training with plenty of data, so that a missing trainer, a flag that it does not take or a
    model that does not fit is found before anything is paid. Raises MissingRequirement, RecipeError.
    """
    table = installed_flags(config)
    if config.sft is not None:
        compile_sft(config, _facts(config.training.policy, _PLENTY), table)
    if config.ppo is not None:
        compile_ppo(config, _facts(config.training.policy, _PLENTY), table)


def training_plan(config: Config, counts: Counts) -> list[TrainingPlan]:
    """The training phases of a recipe, in order, with short names for paths.

    Raises MissingRequirement for an installed OpenRLHF of an unknown version, and RecipeError for what is wrong with
    the recipe whatever the data.
    """
    plans = []
    if config.sft is not None:
        facts = _facts(config.training.policy, counts.passing)
        plans.append(_plan(config, "sft", compile_sft, facts))
    if config.ppo is not None:
        policy = config.training.policy if config.sft is None else "sft/model"
        facts = replace(_facts(policy, counts.train), eval_data=Path("dev.jsonl"), eval_rows=counts.dev)
        plans.append(_plan(config, "ppo", compile_ppo, replace(facts, agent_func=Path("agent_func.py"))))
    return plans


def _facts(model: str, rows: int) -> Facts:
    return Facts(
        model=model,
        data=Path("train.jsonl"),
        rows=rows,
        checkpoints=Path("checkpoints"),
        output=Path("model"),
        tensorboard=Path("tensorboard"),
    )


def _plan(config: Config, phase: str, compile_it: Compile, facts: Facts) -> TrainingPlan:
    python, address = config.training.python or "python", config.training.ray_address
    try:
        command = compile_it(config, facts, known_flags(config))
    except NotEnoughData as error:
        return TrainingPlan(phase=phase, python=python, command=None, trouble=str(error))
    return TrainingPlan(
        phase=phase,
        submit=("ray", "job", "submit", "--address", address, "--") if address else (),
        python=python,
        command=command,
        episode_seconds=min(EPISODE_SECONDS, config.agent.episode_seconds),
        live_episodes=config.ppo.live_episodes if config.ppo is not None else 1,
    )
