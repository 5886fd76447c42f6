"""What goes into compiling and what comes out: facts in, a command out. Plain data, no OpenRLHF."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a recipe does not say: where things lie, and how much data there is."""

    model: str
    """What training starts from: a folder with a checkpoint, or a name on the hub."""
    data: Path
    """A .jsonl file: prompts for PPO (``input``, ``label``), conversations for SFT (``messages``)."""
    rows: int
    """Training tasks, or conversations, that there are."""
    eval_data: Path | None = None
    eval_rows: int = 0
    checkpoints: Path
    """Checkpoints from which a killed run goes on, and exports in the Hugging Face format (``<tag>_hf``)."""
    output: Path
    """The final model, in the Hugging Face format."""
    tensorboard: Path
    agent_func: Path | None = None
    """PPO: the file that defines ``AgentExecutor``."""
    resume: bool = False
    """Go on from the latest checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One option of the trainer, and the recipe's key that it comes from."""

    name: str
    """With its dashes: ``--actor.adam.lr``."""
    values: tuple[str, ...] = ()
    """None for a switch."""
    key: str

    @property
    def words(self) -> list[str]:
        return [self.name, *self.values]


def flag(name: str, key: str, *values: Any) -> Flag:
    """A flag with its values as text: ``5e-07``, ``16384``."""
    return Flag(name=f"--{name}", key=key, values=tuple(str(value) for value in values))


def switches(wanted: Mapping[tuple[str, str], bool]) -> Iterable[Flag]:
    """The flags, of ``(name, key) -> on``, that are on."""
    return [flag(name, key) for (name, key), on in wanted.items() if on]


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """Something the recipe asks for that OpenRLHF cannot do."""

    key: str
    wanted: str
    instead: str

    def __str__(self) -> str:
        return f"{self.key}: {self.wanted} -> {self.instead}"


@dataclass(frozen=True, kw_only=True)
class Command:
    """How a trainer is started: ``python *launcher -m module *argv``, with ``env`` added to its environment."""

    module: str
    """``openrlhf.cli.train_ppo_ray`` or ``openrlhf.cli.train_sft``."""
    launcher: tuple[str, ...] = ()
    """What stands between the Python and ``-m module``: SFT on GPUs needs one process each."""
    argv: tuple[str, ...]
    """Every flag once, in a fixed order; the user's own (``training.flags``) last."""
    env: dict[str, str]
    """Without what only the launcher knows: PYTHONPATH, folders, free ports."""
    rows: int
    """PPO: the data file must hold exactly these first rows; the rest would make a partial batch."""
    steps: int
    """PPO: rollout steps; SFT: optimizer steps."""
    optimizer_steps: int
    episodes: int = 0
    """Episodes played, evaluations included."""
    layout: tuple[str, ...] = ()
    """Which part runs on which GPUs, in words."""
    checked: str = ""
    """Which parser took the flags."""
    notes: tuple[str, ...] = ()
    """The arithmetic, in words."""
    warnings: tuple[str, ...] = ()
    """What works, but is probably not what was wanted."""
    deviations: tuple[Deviation, ...] = ()
    flags: tuple[Flag, ...] = field(default=(), repr=False)
    """The same as ``argv``, with the keys they come from."""

    def words(self, python: str = "python") -> list[str]:
        """The whole command line."""
        return [python, *self.launcher, "-m", self.module, *self.argv]
