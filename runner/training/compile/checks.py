"""Checks that need more than the recipe: the checkpoint's own numbers, and the paths that OpenRLHF is given."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.domain.errors import RecipeError
from runner.schema import Config
from runner.schema_training import Device
from runner.training.compile.command import Facts
from runner.training.compile.layout import ppo_layout

CPU_HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""What vLLM 0.29.0's attention takes on a CPU (``v1/attention/backends/cpu_attn.py``)."""


def check_facts(config: Config, facts: Facts) -> None:
    """Raise RecipeError for the first thing about data, paths or model that cannot work."""
    for problem in (*_paths(facts), *model_problems(config, facts.model)):
        raise RecipeError(problem)


def _paths(facts: Facts) -> Iterator[str]:
    """OpenRLHF splits dataset paths at commas and at @."""
    for path in (facts.data, facts.eval_data):
        if path is not None and set(",@") & set(str(path)):
            yield f"outputs: OpenRLHF takes no dataset path with a comma or an @ in it: {path}"


def model_problems(config: Config, model: str) -> Iterator[str]:
    """What a checkpoint's ``config.json`` says against this recipe; nothing where the model is not a local folder."""
    path = Path(model) / "config.json"
    if not Path(model).is_absolute() or not path.is_file():
        return
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        yield f"training.policy: {path} is not JSON: {error}"
        return
    yield from _context(config, numbers)
    if config.ppo is not None:
        yield from _heads(config, numbers)


def _context(config: Config, numbers: Mapping[str, Any]) -> Iterator[str]:
    longest = numbers.get("max_position_embeddings")
    if isinstance(longest, int) and longest < config.agent.context_tokens:
        yield (
            f"agent.context_tokens is {config.agent.context_tokens:,}, but the policy's own context is {longest:,} "
            "tokens (max_position_embeddings)"
        )


def _heads(config: Config, numbers: Mapping[str, Any]) -> Iterator[str]:
    assert config.ppo is not None
    heads, hidden = numbers.get("num_attention_heads"), numbers.get("hidden_size")
    if not isinstance(heads, int) or not isinstance(hidden, int):
        return
    parallel = ppo_layout(config.training, config.ppo).tensor_parallel
    if heads % parallel:
        yield f"ppo.engines.tensor_parallel is {parallel}, but does not divide the policy's {heads} attention heads"
    head_dim = numbers.get("head_dim") or hidden // heads
    if config.training.device is Device.cpu and head_dim not in CPU_HEAD_DIMS:
        yield (
            f"training.policy: its head_dim is {head_dim}, and vLLM on a CPU takes only "
            f"{', '.join(map(str, CPU_HEAD_DIMS))}"
        )
