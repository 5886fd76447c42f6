"""A trained policy as a model that can be asked: vLLM's server, from the trainer's own environment."""

import sys
from typing import Any

from runner.schema import Config, Model, Provider, Vllm
from runner.schema_training import Device
from runner.training.compile.shared_flags import environment

_SERVER = ("-m", "vllm.entrypoints.openai.api_server", "--model")
"""By its module: the CPU build has no working ``vllm serve``."""


def policy_model(config: Config, path: str) -> Model:
    """How to ask the checkpoint at ``path`` (a folder or a Hugging Face name) under this recipe.

    The engine has the trainer's settings: the same context, precision and sampling, so that a score differs from a
    training reward only by its tasks. vLLM's own defaults from a checkpoint's ``generation_config.json`` are off.
    """
    dev = config.eval and config.eval.dev
    python = config.training.python or sys.executable
    return Model(
        provider=Provider.vllm,
        name=path,
        **sampling(config),
        concurrency=config.executor.workers,
        vllm=Vllm(
            command=[python, *_SERVER],
            args=[*_arguments(config), *(dev.vllm_args if dev else [])],
            env=environment(config, path),
            start_seconds=dev.start_seconds if dev else Vllm().start_seconds,
        ),
    )


def sampling(config: Config) -> dict[str, Any]:
    """How a policy's tokens are drawn: as in training, unless the recipe says otherwise."""
    top_p = config.ppo.top_p if config.ppo is not None else 1.0
    return {"temperature": _temperature(config), "extra_body": {"top_p": top_p} if top_p != 1.0 else {}}


def _temperature(config: Config) -> float:
    dev = config.eval and config.eval.dev
    if dev and dev.temperature is not None:
        return dev.temperature
    if config.ppo is None:
        return 1.0
    return config.ppo.temperature if config.ppo.eval_temperature is None else config.ppo.eval_temperature


def _arguments(config: Config) -> list[str]:
    seed = config.seed if config.training.seed is None else config.training.seed
    common = ["--max-model-len", str(config.agent.context_tokens), "--dtype", "bfloat16", "--seed", str(seed)]
    common += ["--generation-config", "vllm"]
    if config.training.device is Device.cpu:
        return [*common, "--enforce-eager"]
    engines = config.ppo.engines if config.ppo is not None else None
    return [*common, "--tensor-parallel-size", str(engines.tensor_parallel)] if engines else common
