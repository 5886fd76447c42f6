"""How a recipe's passes, batches and warm-up steps become OpenRLHF's numbers, and its own step counts.

OpenRLHF 0.11.2 plans its schedules for ``prompts x samples // batch x passes x updates`` optimizer steps
(``trainer/ppo_trainer.py``) and warms up for ``ceil(steps x ratio)`` of them (``utils/deepspeed/deepspeed.py``). It
does not drop a partial batch: gradient accumulation would run on into the next one. So there is none.
"""

import math
from dataclasses import dataclass

from runner.domain.errors import RecipeError
from runner.schema_training import Ppo, Sft


class NotEnoughData(RecipeError):
    """The data does not fill one step; more of it, or smaller batches, would."""


@dataclass(frozen=True, kw_only=True)
class PpoSteps:
    """The size of a PPO run."""

    tasks: int
    """Training tasks that there are."""
    prompts: int
    """Tasks that a pass plays: whole steps of them."""
    passes: int
    per_pass: int
    """Rollout steps of a pass."""
    batch: int
    """Episodes an optimizer step."""
    optimizer_per_step: int
    """Optimizer steps after one rollout."""
    rollout_episodes: int
    evaluations: int

    @property
    def rollout_steps(self) -> int:
        return self.per_pass * self.passes

    @property
    def optimizer_steps(self) -> int:
        return self.rollout_steps * self.optimizer_per_step


def ppo_steps(ppo: Ppo, tasks: int) -> PpoSteps:
    """The numbers of a run over ``tasks`` training tasks. Raises NotEnoughData when they do not fill one step."""
    if tasks < ppo.prompts_per_step:
        raise NotEnoughData(
            f"ppo.prompts_per_step is {ppo.prompts_per_step}, but there are only {tasks} training tasks; "
            + (f"set it to {tasks} or less" if tasks else "nothing can be trained")
        )
    per_pass, passes = _cut(ppo, tasks // ppo.prompts_per_step)
    samples = ppo.prompts_per_step * ppo.samples_per_prompt
    batch = ppo.mini_batch_prompts * ppo.samples_per_prompt
    return PpoSteps(
        tasks=tasks,
        prompts=per_pass * ppo.prompts_per_step,
        passes=passes,
        per_pass=per_pass,
        batch=batch,
        optimizer_per_step=samples // batch * ppo.updates_per_step,
        rollout_episodes=per_pass * passes * samples,
        evaluations=per_pass * passes // ppo.eval_every if ppo.eval_every > 0 else 0,
    )


def _cut(ppo: Ppo, per_pass: int) -> tuple[int, int]:
    """Steps per pass and passes within ``max_steps``: fewer passes, or one pass over fewer tasks."""
    if ppo.max_steps is None:
        return per_pass, ppo.epochs
    if ppo.max_steps < per_pass:
        return ppo.max_steps, 1
    return per_pass, min(ppo.epochs, ppo.max_steps // per_pass)


def sft_steps(sft: Sft, episodes: int, processes: int) -> int:
    """Optimizer steps over all epochs. Raises NotEnoughData when the episodes do not fill one batch.

    Each process takes an equal share and whole micro-batches of it; a batch may span two epochs
    (``trainer/sft_trainer.py``).
    """
    micro_batches = episodes // processes // sft.micro_batch_size * sft.epochs
    steps = micro_batches // (sft.batch_size // sft.micro_batch_size // processes)
    if steps == 0:
        raise NotEnoughData(
            f"sft.batch_size is {sft.batch_size}, but {sft.epochs} epochs of {episodes} episodes do not fill one batch"
        )
    return steps


def warmup_ratio(warmup_steps: int, steps: int) -> float:
    """The ratio, in few digits, for which OpenRLHF's ``ceil(steps x ratio)`` is exactly ``warmup_steps``.

    Rounded down, never to the nearest: 20 of 3,840 is 0.005208..., and ceil(3,840 x 0.00521) would be 21.
    """
    for digits in range(3, 13):
        scale: int = 10**digits
        ratio = warmup_steps * scale // steps / scale
        if math.ceil(steps * ratio) == warmup_steps:
            return ratio
    return (warmup_steps - 0.5) / steps
