"""Checks beyond types: ranges, names that must exist, settings that contradict each other."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from runner.compose.suggest import did_you_mean, nearest
from runner.compose.validate_evaluation import evaluation_problems
from runner.compose.validate_model import model_problems
from runner.domain.errors import RecipeError
from runner.phases.filter.predicates import parse_all
from runner.phases.registry import CONTENT, PHASES, switched_off, wanted_phases
from runner.schema import Config
from runner.taxonomy import check as check_taxonomy
from runner.training.compile.recipe_checks import recipe_problems

EXPORTS = ("harbor", "openrlhf", "hf")
BACKENDS = ("auto", "docker", "apptainer", "local", "null")

_DOTTED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_POSITIVE = (
    *(f"agent.{name}" for name in ("max_turns", "turn_tokens", "context_tokens", "output_tokens", "max_invalid")),
    *("agent.episode_seconds", "agent.command_seconds"),
    *(f"generate.{name}" for name in ("draws", "rounds", "max_tokens", "log_tokens")),
    *(f"sandbox.{name}" for name in ("concurrency", "memory_mb", "pids", "cpus", "output_bytes")),
    *("sandbox.build_seconds", "sandbox.verifier_seconds"),
    *("filter.n", "dataset.max_prompt_tokens", "executor.workers", "tracking.timeout_seconds"),
)
_NOT_NEGATIVE = (
    *("sandbox.prestart", "dataset.dev_tasks", "tracking.episode_traces"),
    *("executor.infra_retries", "executor.backoff_seconds", "executor.engine_seconds"),
)
_SHARES = ("dataset.max_dev_share", "executor.infra_share", "generate.duplicate_similarity")


def validate(config: Config) -> None:
    """Raise RecipeError for the first value that cannot work; checks nothing outside the recipe but its own files."""
    for check in _CHECKS:
        for message in check(config):
            raise RecipeError(message)
    parse_all(config.filter.keep, config.filter.n, config.filter.early_stop)
    check_taxonomy(config.taxonomy)


def _names(config: Config) -> Iterator[str]:
    if not config.name.strip():
        yield "name is empty; it is the experiment's name in MLflow"
    if not config.outputs.strip():
        yield "outputs is empty; it is the folder where everything is kept"


def _ranges(config: Config) -> Iterator[str]:
    for key in _POSITIVE:
        if (value := _get(config, key)) <= 0:
            yield f"{key} is {value}, but must be more than 0"
    for key in _NOT_NEGATIVE:
        if (value := _get(config, key)) < 0:
            yield f"{key} is {value}, but must be 0 or more"
    for key in _SHARES:
        if not 0 <= (value := _get(config, key)) <= 1:
            yield f"{key} is {value}, but is a share between 0 and 1"
    for name in ("dollars", "calls"):
        limit = getattr(config.budget, name)
        if limit is not None and limit < 0:
            yield f"budget.{name} is {limit}, but must be 0 or more, or null for no limit"


def _phases(config: Config) -> Iterator[str]:
    if not config.phases:
        yield f"phases is empty; it has {', '.join(PHASES)}"
    for phase in config.phases:
        if phase not in PHASES:
            yield f"phases: there is no phase {phase!r}{did_you_mean(phase, PHASES)}"
    phases, off = wanted_phases(config), switched_off(config)
    known = [phase for phase in PHASES if phase not in off]
    ordered = [phase for phase in known if phase in phases]
    if phases != ordered:
        yield f"phases: {', '.join(phases)} must be {', '.join(ordered)}, each once and in this order"
    strict = [phase for phase in ordered if phase not in CONTENT]
    if missing := [phase for phase in known[: len(strict)] if phase not in phases]:
        yield f"phases: {ordered[-1]} needs {missing[-1]} before it"


def _models(config: Config) -> Iterator[str]:
    for role in ("generator", "solver"):
        yield from model_problems(getattr(config.models, role), f"models.{role}")
    for name, price in config.prices.items():
        if min(price.input, price.output, price.cached or 0.0) < 0:
            yield f"prices.{name}: a price is 0 or more dollars per million tokens"


def _sandbox(config: Config) -> Iterator[str]:
    backend = config.sandbox.backend
    if backend not in BACKENDS and not _DOTTED.fullmatch(backend):
        hint = did_you_mean(backend, BACKENDS)
        yield f"sandbox.backend is {backend!r}, not one of {', '.join(BACKENDS)} or a dotted module:Class{hint}"
    for name in config.sandbox.build_env:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            yield "sandbox.build_env holds NAMES of environment variables, never NAME=value"
    if config.sandbox.starts is not None and config.sandbox.starts <= 0:
        yield f"sandbox.starts is {config.sandbox.starts}, but must be more than 0, or null"
    if config.sandbox.cache_gb is not None and config.sandbox.cache_gb < 0:
        yield f"sandbox.cache_gb is {config.sandbox.cache_gb}, but must be 0 or more, or null for no limit"
    if not Path(config.sandbox.root).is_absolute():
        yield f"sandbox.root is {config.sandbox.root!r}, but must be an absolute path"


def _agent(config: Config) -> Iterator[str]:
    agent = config.agent
    if agent.turn_tokens >= agent.context_tokens:
        yield f"agent.turn_tokens ({agent.turn_tokens}) must be less than agent.context_tokens ({agent.context_tokens})"
    for key, folder in (("agent.prompt", agent.prompt), ("generate.prompt", config.generate.prompt)):
        if Path(folder).is_absolute() and not Path(folder).is_dir():
            yield f"{key}: there is no folder {folder!r}"


def _generate(config: Config) -> Iterator[str]:
    for name in ("temperature", "test_temperature"):
        value = getattr(config.generate, name)
        if value is not None and not 0 <= value <= 2:
            yield f"generate.{name} is {value}, but must be between 0 and 2, or null"
    for folder in config.generate.decontaminate:
        if not Path(folder).expanduser().is_dir():
            yield f"generate.decontaminate: there is no folder {folder!r}"


def _taxonomy(config: Config) -> Iterator[str]:
    """A null for a name that nobody declared changes nothing: it is a typo when a real dimension is like it."""
    real = [name for name, dimension in config.taxonomy.dimensions.items() if dimension is not None]
    for name, dimension in config.taxonomy.dimensions.items():
        if dimension is None and (near := nearest(name, real, 1)):
            yield f"taxonomy.dimensions.{name} is null, but there is no such dimension to drop; did you mean {near[0]}?"


def _filter(config: Config) -> Iterator[str]:
    n, early_stop = config.filter.n, config.filter.early_stop
    if early_stop is not None and not 1 <= early_stop < n:
        yield f"filter.early_stop is {early_stop}, but must be at least 1 and less than filter.n ({n})"


def _dataset(config: Config) -> Iterator[str]:
    for name in config.dataset.export:
        if name not in EXPORTS:
            yield f"dataset.export: {name!r} is not one of {', '.join(EXPORTS)}{did_you_mean(name, EXPORTS)}"


def _get(config: Config, key: str) -> float:
    section, _, name = key.partition(".")
    value = getattr(getattr(config, section), name)
    assert isinstance(value, int | float)
    return value


_CHECKS: tuple[Callable[[Config], Iterator[str]], ...] = (
    _names,
    _ranges,
    _phases,
    _models,
    _sandbox,
    _agent,
    _generate,
    _taxonomy,
    _filter,
    _dataset,
    recipe_problems,
    evaluation_problems,
)
