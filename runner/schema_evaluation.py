"""The recipe's grammar for evaluation: who is scored, on what, how often. Part of ``runner/schema.py``."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from runner.schema_models import Model


class Split(Enum):
    """Which of the dataset's tasks."""

    dev = "dev"
    train = "train"


@dataclass(frozen=True)
class Dev:
    """Evaluation on the recipe's own tasks, in the agent harness that the filter and training use."""

    split: Split = Split.dev
    """``train`` shows that a policy learns, not that it generalises."""
    samples: int = 4
    """Attempts per task; pass@k is estimated for every k up to this."""
    temperature: float | None = None
    """Of the policies; null: ``ppo.eval_temperature``, else ``ppo.temperature``, else 1.0."""
    policies: list[str] = field(default_factory=lambda: ["base", "sft", "ppo"])
    """Which of the recipe's own policies, as far as it has them: ``base`` (untrained), ``sft``, ``ppo``."""
    checkpoints: bool = True
    """Also every checkpoint that PPO exported; the best by pass@1 is named."""
    solver: bool = True
    """Also a row for the solver, from the filter's episodes of these tasks: nothing is asked again. The filter kept
    only tasks that it passes at times, so its score is flattered."""
    models: dict[str, Model] = field(default_factory=dict)
    """More models, by a name of yours: any that could be a solver."""
    vllm_args: list[str] = field(default_factory=list)
    """More flags for the vLLM server of a policy, which is ``training.python``'s own."""
    start_seconds: float = 600.0
    """How long that server may take until it answers."""


@dataclass(frozen=True)
class Harness:
    """An agent that Harbor runs."""

    agent: str = "endless"
    """``endless`` (this package's, the same as in training) or a name Harbor knows (``terminus-2``)."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """What Harbor hands to the agent's constructor. For ``endless``: keys of the section ``agent`` that are to differ
    from training (``episode_seconds: 1800``, say)."""


@dataclass(frozen=True)
class TerminalBench:
    """Evaluation through Harbor, on a published dataset or a folder of Harbor tasks."""

    dataset: str = "terminal-bench"
    """The dataset's name in Harbor's registry."""
    version: str | None = "2.0"
    commit: str | None = None
    """A git commit that the dataset's tasks must be at; null: what the registry says."""
    path: str | None = None
    """A local folder of Harbor tasks, in place of the registry."""
    tasks: list[str] = field(default_factory=list)
    """Only these (names or glob patterns); empty: all."""
    attempts: int = 5
    """Per task. One is not enough: 1 -> 6 of 89 tasks is not significant."""
    harnesses: list[Harness] = field(default_factory=lambda: [Harness(), Harness(agent="terminus-2")])
    policies: list[str] = field(default_factory=lambda: ["base", "sft", "ppo"])
    models: dict[str, Model] = field(default_factory=dict)
    """More models, by a name of yours."""
    environment: str = "docker"
    """Harbor's environment type, or ``module:Class``."""
    concurrency: int = 4
    """Trials at once."""
    python: str | None = None
    """A Python >= 3.12 that has this package's extra ``harbor``; null: the one that runs this."""
    harbor: dict[str, Any] = field(default_factory=dict)
    """More of Harbor's own job config, over ours: ``environment: {override_memory_mb: 4096}``, say."""


@dataclass(frozen=True)
class Evaluation:
    """What is scored when everything is trained."""

    dev: Dev | None = Dev()
    """Null: none."""
    terminalbench: TerminalBench | None = None
    """Null: none."""
    confidence: float = 0.95
    """Level of the intervals."""
    seed: int | None = None
    """Of bootstrap and permutation; null: the recipe's seed."""
