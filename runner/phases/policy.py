"""What a training phase starts from, and what all training phases tell when they are done."""

import sys
from pathlib import Path

from runner.phases.base import Context
from runner.schema import Config
from runner.tracking.base import ModelRef
from runner.training.environment import python_path
from runner.training.launch import run_program

MODEL = "model"
"""The folder of a phase's trained policy."""
_MADE = {"tiny": "runner.training.policies.tiny", "smollm2-135m": "runner.training.policies.smollm2"}


def policy_identity(config: Config) -> dict[str, object]:
    """The settings that a trained policy depends on, apart from its phase's own: not the machine's."""
    training = config.training
    return {
        "policy": training.policy,
        "device": training.device.name,
        "attention": training.attention,
        "packing": training.packing,
        "flags": training.flags,
        "seed": seed_of(config),
    }


def seed_of(config: Config) -> int:
    return config.training.seed if config.training.seed is not None else config.seed


def base_policy(context: Context, text: Path) -> str:
    """The recipe's untrained policy: a name or folder, made first where its name means a made one. Raises TrainerError.

    ``text`` is training data, for a tokenizer of its own.
    """
    config = context.config
    module = _MADE.get(config.training.policy)
    if module is None:
        return config.training.policy
    folder = context.folder / "base"
    if not (folder / "config.json").exists():
        arguments = [str(folder)]
        if module.endswith("tiny"):
            arguments += [str(seed_of(config)), str(config.agent.context_tokens), str(text)]
        run_program(trainer_python(config), module, *arguments, env={"PYTHONPATH": python_path("")})
    return str(folder)


def trainer_python(config: Config) -> str:
    return config.training.python or sys.executable


def model_ref(config: Config, phase: str, folder: Path, fingerprint: str) -> ModelRef:
    """The finished model, for the registry."""
    tags = {"endless.recipe": config.name, "endless.phase": phase, "endless.fingerprint": fingerprint}
    tags["endless.policy"] = config.training.policy
    name = f"endless-{config.name.replace('/', '-')}-{phase}"
    return ModelRef(name=name, path=folder / MODEL, tags=tags)
