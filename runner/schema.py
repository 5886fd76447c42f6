"""The recipe's grammar: one dataclass per config section, and the manual in their field docstrings.

A recipe may set any of these and nothing else; an unknown key is an error. Values shown are the defaults.
Secrets never appear here, only the *name* of the environment variable that holds one.
"""

from dataclasses import dataclass, field
from enum import Enum

from runner.schema_evaluation import Evaluation
from runner.schema_models import Model as Model
from runner.schema_models import Provider as Provider
from runner.schema_models import Vllm as Vllm
from runner.schema_training import Ppo, Sft, Training


class Sampling(Enum):
    """How labels are drawn."""

    independent = "independent"
    """Each draw picks every dimension by weight, on its own."""
    stratified = "stratified"
    """Each block of draws covers every value of a dimension in proportion to its weight."""


@dataclass(frozen=True)
class Dimension:
    """One axis of the taxonomy."""

    values: dict[str, float] = field(default_factory=dict)
    """Value -> weight (any non-negative numbers; they are normalised). Weight 0 never occurs."""
    description: str = ""
    """One sentence for the generator on what this dimension means."""
    fixed: str | None = None
    """Always this value, which need not be among ``values``."""


@dataclass(frozen=True)
class Taxonomy:
    """What tasks are about: a weighted set per dimension."""

    dimensions: dict[str, Dimension | None] = field(default_factory=dict)
    """Name -> dimension, in prompt order. Set one to null to drop it, add a new key to add one."""
    sampling: Sampling = Sampling.independent


@dataclass(frozen=True)
class Models:
    """Who plays which role."""

    generator: Model = Model()
    """Writes tasks, environments and tests."""
    solver: Model = Model()
    """Attempts tasks in the filter."""


@dataclass(frozen=True)
class Price:
    """What a model costs, in US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    """Input read from the prompt cache; null: the input price."""


@dataclass(frozen=True)
class Budget:
    """A hard stop. Reaching it leaves a state that resumes once the limit is raised.

    It holds in a benchmark, too. Only what agents of Harbor's own (terminus-2) ask is known no sooner than their trials
    end, so the trials in flight may go beyond it.
    """

    dollars: float | None = None
    """Counts every live call of this run, earlier attempts included. Needs a known price for each live model."""
    calls: int | None = None


@dataclass(frozen=True)
class Sandbox:
    """Where tasks are built and agents run."""

    backend: str = "auto"
    """``docker``, ``apptainer``, ``local``, ``null`` (benchmarks), ``auto`` (the first of docker and local that works)
    or a dotted ``module:Class`` of your own."""
    base_image: str = "ubuntu:22.04"
    """What ``sandboxes/base/Dockerfile`` starts FROM. Apptainer also takes ``oras://...`` and the like, or a path: a
    .sif, an unpacked folder, or (ending in .tar) what ``docker save`` writes."""
    concurrency: int = 8
    """Sandboxes (builds and episodes) in use at once. ``executor.workers`` is how many may want one."""
    prestart: int = 8
    """Sandboxes started for waiting workers, beyond ``concurrency``, so that an episode finds its own ready when its
    turn comes; 0: none. They need ``executor.workers`` to be more than ``concurrency``."""
    starts: int | None = None
    """Sandboxes being started at once; null: two per processor of this machine, 8 at least and 32 at most. More only
    make each start slower, since engines take them almost one by one, and let some fail."""
    build_seconds: float = 180.0
    verifier_seconds: float = 60.0
    memory_mb: int = 1024
    """Memory limit of one sandbox."""
    pids: int = 256
    """Process limit of one sandbox."""
    cpus: float = 1.0
    output_bytes: int = 1_000_000
    """A command that writes more is stopped."""
    build_network: str | None = None
    """The engine's network for builds (``host``, ``none``, ...); null: the engine's own default, and ``host`` for
    Dockerfiles where the engine has no bridge network. The local backend has no network unless this is ``host``;
    Apptainer has this machine's unless it is ``none``."""
    build_env: list[str] = field(default_factory=list)
    """NAMES of environment variables handed to builds (proxies, indexes, certificates); never stored in an image."""
    address: str | None = None
    """The engine's socket (``unix:///run/podman/podman.sock``); null: DOCKER_HOST or the default."""
    root: str = "/"
    """Local backend: the folder whose system directories the sandbox sees; ``/`` is this machine's own, read-only."""
    sif: bool = False
    """Apptainer: keep the base image as one .sif file instead of a folder, for file systems that are slow with many
    small files (Lustre, NFS) or limit their number. Sandboxes then start and read files a little slower."""
    cache_gb: float | None = 50.0
    """How much disk the built tasks may take, in GB, not counting their common base. Those that were not used for
    longest are removed during a run, and built again when they are wanted; null: no limit. `endless clean` frees the
    rest."""


@dataclass(frozen=True)
class Agent:
    """The harness a model works in: the same in the filter, in training and in evaluation."""

    max_turns: int = 16
    turn_tokens: int = 2048
    """Cap on one reply, thoughts included."""
    context_tokens: int = 16384
    """Cap on the whole conversation, by the provider's own usage figures."""
    episode_seconds: float = 300.0
    command_seconds: float = 30.0
    """Limit of one command; a task's final tests have ``sandbox.verifier_seconds`` instead."""
    output_tokens: int = 4000
    """Cap on one observation; the cut is named in it."""
    max_invalid: int = 3
    """This many unparsable replies in a row end the episode."""
    prompt: str = "default"
    """The prompt set in ``runner/agent/prompts/`` (a folder of Jinja templates), or an absolute folder."""


@dataclass(frozen=True)
class Generate:
    """How tasks are made."""

    draws: int = 12
    """Taxonomy draws, each of which becomes a task or a reason why not."""
    rounds: int = 3
    """Attempts per stage: the first and the repairs (the paper: at most 3)."""
    oracle: bool = True
    """Ask the generator for a solution script, which must pass the final test."""
    temperature: float | None = 1.0
    """For task descriptions and environments; null: the model's own setting."""
    test_temperature: float | None = 0.6
    """For the final tests."""
    max_tokens: int = 8192
    log_tokens: int = 2000
    """How much of a build's or test's log goes back to the model."""
    duplicate_similarity: float = 0.8
    """Jaccard similarity of instruction word 3-grams from which a task is a near-duplicate of an earlier one."""
    decontaminate: list[str] = field(default_factory=list)
    """Folders of benchmark tasks (Harbor format); a task as similar to one of them is dropped."""
    prompt: str = "default"
    """The prompt set in ``runner/phases/generate/prompts/``, or an absolute folder."""


@dataclass(frozen=True)
class Filter:
    """Which tasks stay: the solver tries each n times."""

    n: int = 16
    keep: list[str] = field(default_factory=lambda: ["pass_at_n > 0"])
    """Predicates, all of which must hold: ``NAME OP NUMBER`` with OP one of < <= > >= == != and NAME one of
    ``pass_at_n``, ``pass_at_1`` ... ``pass_at_<n>``, ``pass_rate``, ``passes``, ``mean_turns``."""
    early_stop: int | None = None
    """Run this many episodes of every task first and estimate pass@k from those alone; the others only run while
    the task has no pass, and only decide whether it is kept. Null runs all n."""


@dataclass(frozen=True)
class Dataset:
    """What training and evaluation will read."""

    dev_tasks: int = 100
    """Tasks held out: the last ones after a seeded shuffle of the sorted ids (the paper: 100)."""
    max_dev_share: float = 0.25
    """Never hold out more than this share of the kept tasks."""
    split_seed: int = 42
    max_prompt_tokens: int = 1536
    """Longer prompts are refused, with their ids (the paper's limit for prompts)."""
    export: list[str] = field(default_factory=lambda: ["harbor", "openrlhf"])
    """Formats written: ``harbor``, ``openrlhf``, ``hf``."""


@dataclass(frozen=True)
class Tracking:
    """Where runs are compared."""

    enabled: bool = True
    uri: str | None = None
    """An MLflow server or store; null: ``sqlite:///<outputs>/mlflow.db`` with its artifacts beside it."""
    experiment: str | None = None
    """Null: the recipe's name."""
    episode_traces: int = 8
    """Episodes logged as MLflow traces, one span a turn; all of them stay on disk as JSONL."""
    timeout_seconds: float = 10.0
    """How long a server may take to answer before tracking warns and gives up for this run."""


@dataclass(frozen=True)
class Executor:
    """How work is spread and how often trouble is retried."""

    workers: int = 64
    """Tasks (or episodes) in hand at once; models and sandboxes have their own limits."""
    infra_retries: int = 3
    """Tries after infrastructure trouble, with exponential back-off."""
    backoff_seconds: float = 1.0
    engine_seconds: float = 300.0
    """How long to wait for a container engine that has gone away (its daemon restarts, say) before what it was doing
    counts as lost."""
    infra_share: float = 0.0
    """A phase may end with this share of its items lost to infrastructure; more, and it stays open for a resume."""


@dataclass(frozen=True)
class Reference:
    """A published figure."""

    value: float | None = None
    """In the metric's own unit: rates are shares from 0 to 1. Null: not published."""
    source: str = ""


@dataclass(frozen=True)
class Config:
    """A whole experiment."""

    name: str = "???"
    """The recipe family: the MLflow experiment and the first part of run names."""
    description: str = ""
    seed: int = 0
    outputs: str = "outputs"
    """Where everything is kept; relative to the folder the command runs in."""
    phases: list[str] = field(
        default_factory=lambda: ["generate", "filter", "dataset", "sft", "ppo", "evaluate", "analyze"]
    )
    """Which phases to run, in this order; ``sft``, ``ppo`` and ``evaluate`` only where the recipe has a section for
    them (``sft``, ``ppo``, ``eval``). ``analyze`` reports on whatever came before it."""
    taxonomy: Taxonomy = Taxonomy()
    models: Models = Models()
    prices: dict[str, Price] = field(default_factory=dict)
    """Model name -> price. A model that is not here has an unknown cost, never 0."""
    budget: Budget = Budget()
    sandbox: Sandbox = Sandbox()
    agent: Agent = Agent()
    generate: Generate = Generate()
    filter: Filter = Filter()
    dataset: Dataset = Dataset()
    training: Training = Training()
    sft: Sft | None = None
    """Null: no supervised fine-tuning."""
    ppo: Ppo | None = None
    """Null: no reinforcement learning."""
    eval: Evaluation | None = None
    """Null: no evaluation."""
    reference: dict[str, Reference] = field(default_factory=dict)
    """Metric name -> a published value, shown beside ours and never used for anything else."""
    tracking: Tracking = Tracking()
    executor: Executor = Executor()
    record: str | None = None
    """Also write every model reply of this run to this folder, so that ``provider: replay`` can serve it offline."""
