"""What scored models are called: which of a recipe's policies comes last and first, and names in metrics."""

from collections.abc import Sequence


def last_policy(names: Sequence[str]) -> str:
    """What the recipe ends with: ppo, else sft, else base; empty where it has no policy."""
    return next((name for name in ("ppo", "sft", "base") if name in names), "")


def first_policy(names: Sequence[str]) -> str:
    """What its last training began with (the paper's "before"); empty where nothing was trained."""
    last = last_policy(names)
    earlier = {"ppo": ("sft", "base"), "sft": ("base",)}.get(last, ())
    return next((name for name in earlier if name in names), "")


def metric_name(name: str) -> str:
    """MLflow refuses the sign in ``ppo@40``."""
    return name.replace("@", "-step-")
