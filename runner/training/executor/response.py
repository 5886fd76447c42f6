"""What a rollout hands back to OpenRLHF 0.11: the dictionary that its ``SamplesGenerator`` reads.

A masked episode is its prompt alone: no token of it was sampled, so no action range says so, and nothing of it enters
a loss. ``runner/training/patches`` keeps the trainer's averages clean of it.
"""

from collections.abc import Mapping
from typing import Any

from runner.training.executor.tokens import Trajectory

Response = dict[str, Any]
"""OpenRLHF's own form, which is a dictionary."""


def graded(
    prompt: str, label: str, trajectory: Trajectory, *, reward: float, truncated: bool, logs: Mapping[str, float]
) -> Response:
    """An episode that was graded."""
    return {
        "prompt": prompt,
        "label": label,
        "images": None,
        "mm_train_inputs": None,
        "reward": reward,
        "scores": reward,
        "observation_tokens": list(trajectory.ids),
        "action_ranges": list(trajectory.actions),
        "rollout_log_probs": None if trajectory.log_probs is None else list(trajectory.log_probs),
        "truncated": truncated,
        "extra_logs": dict(logs),
    }


def masked(prompt: str, label: str, trajectory: Trajectory, logs: Mapping[str, float]) -> Response:
    """An episode that infrastructure kept from ending; ``trajectory`` holds the prompt alone."""
    assert not trajectory.actions, "a masked episode has no actions"
    return graded(prompt, label, trajectory, reward=0.0, truncated=False, logs=logs)
