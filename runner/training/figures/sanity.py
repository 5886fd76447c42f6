"""When a PPO run learns nothing any more, it ends with the reason instead of with the budget."""

import math
from collections.abc import Sequence

from runner.schema_training import Sanity
from runner.training.errors import TrainerError
from runner.training.figures.follow import Point

ENTROPY_STEPS = 3


def check_sanity(points: Sequence[Point], sanity: Sanity) -> None:
    """Raises TrainerError for a run whose points (``ppo/...``, in order) show that going on is a waste."""
    if points:
        reason = _broken(points[-1], sanity) or _without_reward(points, sanity) or _without_entropy(points, sanity)
        if reason:
            raise TrainerError(f"training was ended at step {points[-1][0]}: {reason}")


def _broken(point: Point, sanity: Sanity) -> str:
    figures = point[1]
    if bad := sorted(name for name, value in figures.items() if not math.isfinite(value)):
        return f"{', '.join(bad)} is not a number; lower the learning rates (ppo.actor.lr, ppo.critic.lr)"
    repeated = figures.get("ppo/repeated", 0.0)
    if sanity.repeated_token_share and repeated >= sanity.repeated_token_share:
        return f"{repeated:.0%} of its episodes are one token over and over (ppo.sanity.repeated_token_share)"
    lost = figures.get("ppo/masked", 0.0)
    if sanity.infra_share and lost > sanity.infra_share:
        return f"{lost:.0%} of its episodes were lost to infrastructure (ppo.sanity.infra_share); see `endless doctor`"
    return ""


def _without_reward(points: Sequence[Point], sanity: Sanity) -> str:
    recent = [
        figures.get("ppo/reward") for _, figures in points[-sanity.zero_reward_steps :] if "ppo/reward" in figures
    ]
    if not sanity.zero_reward_steps or len(recent) < sanity.zero_reward_steps or any(recent):
        return ""
    return (
        f"not one reward in {sanity.zero_reward_steps} steps (ppo.sanity.zero_reward_steps): the tasks are too hard "
        f"for this policy; begin with SFT (sft=solver), or keep easier tasks (filter=band)"
    )


def _without_entropy(points: Sequence[Point], sanity: Sanity) -> str:
    recent = [figures["ppo/entropy"] for _, figures in points[-ENTROPY_STEPS:] if "ppo/entropy" in figures]
    if not sanity.min_entropy or len(recent) < ENTROPY_STEPS or max(map(abs, recent)) >= sanity.min_entropy:
        return ""
    return (
        f"the policy's entropy is below {sanity.min_entropy:g} nats (ppo.sanity.min_entropy): it has stopped "
        f"to explore; lower ppo.actor.lr, or set ppo.entropy_coef"
    )
