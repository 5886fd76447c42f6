"""Facts of a made-up machine, and the flags of the known OpenRLHF."""

from collections.abc import Callable
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.compose import compose
from runner.compose.typed import to_config
from runner.compose.validate import validate
from runner.domain.plain import plain
from runner.schema import Config
from runner.training.compile import Facts, FlagTable
from runner.training.compile.parser import stored_flags


@pytest.fixture
def table() -> FlagTable:
    return stored_flags()


@pytest.fixture
def facts() -> Callable[..., Facts]:
    def make(**changes: object) -> Facts:
        known = {
            "model": "some/model",
            "data": Path("/out/train.jsonl"),
            "rows": 3155,
            "eval_data": Path("/out/dev.jsonl"),
            "eval_rows": 100,
            "checkpoints": Path("/out/checkpoints"),
            "output": Path("/out/model"),
            "tensorboard": Path("/out/tensorboard"),
            "agent_func": Path("/code/agent_func.py"),
        }
        return Facts(**(known | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """A checked recipe with these overrides: the small CPU one, or another. Hydra composes only its groups, once."""
    monkeypatch.chdir(tmp_path)

    def make(*overrides: str, name: str = "quickstart") -> Config:
        groups = [word for word in overrides if word.partition("=")[0] in GROUPS]
        values = [word for word in overrides if word not in groups]
        chosen = {word.partition("=")[0] for word in groups}
        ours = CPU if name == "quickstart" else ()
        config = composed(name, (*(word for word in ours if word.partition("=")[0] not in chosen), *groups))
        if values:
            config = to_config(reduce(changed, values, plain(config)))
            validate(config)
        return config

    return make


GROUPS = ("training", "policy", "sft", "ppo")
CPU = ("sft=off", "training=cpu", "ppo=cpu", "policy=tiny")


@cache
def composed(name: str, groups: tuple[str, ...]) -> Config:
    return compose(name, groups)


def changed(values: dict[str, Any], word: str) -> dict[str, Any]:
    """The values with ``a.b=VALUE`` set; a mapping is merged."""
    key, _, text = word.removeprefix("+").partition("=")
    *path, last = key.split(".")
    owner = values
    for part in path:
        owner = owner[part]
    owner[last] = merged(owner.get(last), yaml.safe_load(text))
    return values


def merged(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return {**old, **{name: merged(old.get(name), value) for name, value in new.items()}}
    return new
