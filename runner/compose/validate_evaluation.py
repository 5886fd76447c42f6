"""Checks of the ``eval`` section beyond types. Part of ``runner/compose/validate.py``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from runner.compose.suggest import did_you_mean
from runner.compose.validate_model import model_problems
from runner.schema import Config, Model
from runner.schema_evaluation import Dev, TerminalBench

POLICIES = ("base", "sft", "ppo")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = (*POLICIES, "solver")


def evaluation_problems(config: Config) -> Iterator[str]:
    """What cannot work in a recipe's evaluation, a line each."""
    settings = config.eval
    if settings is None:
        return
    if not 0 < settings.confidence < 1:
        yield f"eval.confidence is {settings.confidence}, but must be between 0 and 1 (0.95, say)"
    if settings.dev is not None:
        yield from _dev(settings.dev)
    if settings.terminalbench is not None:
        yield from _bench(settings.terminalbench)


def _dev(dev: Dev) -> Iterator[str]:
    if dev.samples < 1:
        yield f"eval.dev.samples is {dev.samples}, but must be at least 1"
    if dev.start_seconds <= 0:
        yield f"eval.dev.start_seconds is {dev.start_seconds}, but must be more than 0"
    if dev.temperature is not None and not 0 <= dev.temperature <= 2:
        yield f"eval.dev.temperature is {dev.temperature}, but must be between 0 and 2, or null"
    yield from _policies(dev.policies, "eval.dev")
    yield from _models(dev.models, "eval.dev")


def _bench(bench: TerminalBench) -> Iterator[str]:
    for name in ("attempts", "concurrency"):
        if getattr(bench, name) < 1:
            yield f"eval.terminalbench.{name} is {getattr(bench, name)}, but must be at least 1"
    if bench.path is not None and not Path(bench.path).expanduser().is_dir():
        yield f"eval.terminalbench.path: there is no folder {bench.path!r}"
    if not bench.harnesses:
        yield "eval.terminalbench.harnesses is empty; the default is our own agent and Harbor's terminus-2"
    yield from _policies(bench.policies, "eval.terminalbench")
    yield from _models(bench.models, "eval.terminalbench")


def _policies(names: Iterable[str], key: str) -> Iterator[str]:
    for name in names:
        if name not in POLICIES:
            yield f"{key}.policies: {name!r} is not one of {', '.join(POLICIES)}{did_you_mean(name, POLICIES)}"


def _models(models: Mapping[str, Model], key: str) -> Iterator[str]:
    for name, model in models.items():
        if not _NAME.fullmatch(name):
            yield f"{key}.models: {name!r} becomes a folder's name: letters, digits, dots, dashes and underscores"
        if name in _TAKEN:
            yield f"{key}.models: {name!r} is the recipe's own; give the model another name"
        yield from model_problems(model, f"{key}.models.{name}")
