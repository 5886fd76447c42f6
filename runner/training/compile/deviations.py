"""What a recipe asks for that OpenRLHF 0.11.2 cannot do: shown in the plan and logged with the run.

Read in its source: ``trainer/ppo_utils/experience_maker.py`` (advantages), ``models/loss.py`` (value loss),
``models/model.py`` (reward normalisation), ``trainer/ppo_trainer.py`` (evaluation).
"""

from collections.abc import Iterator

from runner.schema_training import Ppo
from runner.training.compile.command import Deviation


def deviations_of(ppo: Ppo) -> Iterator[Deviation]:
    """Those that this recipe meets."""
    if ppo.critic_mini_batch_prompts not in (None, ppo.mini_batch_prompts):
        yield Deviation(
            key="ppo.critic_mini_batch_prompts",
            wanted=f"critic mini-batches of {ppo.critic_mini_batch_prompts} prompts",
            instead=f"one size serves actor and critic: {ppo.mini_batch_prompts} prompts",
        )
    if not ppo.normalize_advantages:
        yield Deviation(
            key="ppo.normalize_advantages",
            wanted="advantages as they are",
            instead="not divided by their standard deviation, but their mean over the batch is still subtracted",
        )
    if not ppo.token_mean_loss:
        yield Deviation(
            key="ppo.token_mean_loss",
            wanted="losses averaged over each episode first",
            instead="so for the actor; the critic's is averaged over all tokens of a batch",
        )
    if ppo.normalize_rewards:
        yield Deviation(
            key="ppo.normalize_rewards",
            wanted="normalised rewards",
            instead="rewards stay 0 and 1: normalisation belongs to reward models there, not to an agent's rewards",
        )
    if ppo.eval_before and ppo.eval_every > 0:
        yield Deviation(
            key="ppo.eval_before",
            wanted="an evaluation before the first step",
            instead=f"the first comes after step {ppo.eval_every}; score the base model with our own harness",
        )
