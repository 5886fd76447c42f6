"""The arithmetic of a run in words, and what works but is probably not what was wanted."""

from collections.abc import Iterator

from runner.schema import Config
from runner.schema_training import Ppo, Sft
from runner.training.compile.arithmetic import PpoSteps
from runner.training.compile.command import Facts
from runner.training.compile.shared_flags import warmup_note, warmup_warnings
from runner.training.compile.words import counted


def ppo_notes(ppo: Ppo, facts: Facts, steps: PpoSteps) -> Iterator[str]:
    """How the numbers come about, in the order of reading."""
    yield _tasks(ppo, steps)
    yield (
        f"rollout steps: {steps.prompts:,} tasks / {ppo.prompts_per_step} a step x {_passes(ppo, steps)} "
        f"= {steps.rollout_steps:,}"
    )
    yield (
        f"mini-batch: {ppo.mini_batch_prompts} prompts x {ppo.samples_per_prompt} samples = {steps.batch:,} episodes "
        "an optimizer step"
    )
    passes, updates = counted(steps.passes, "pass", "passes"), counted(ppo.updates_per_step, "update")
    yield (
        f"optimizer steps: {steps.prompts:,} prompts x {ppo.samples_per_prompt} samples // {steps.batch:,} x "
        f"{passes} x {updates} = {steps.optimizer_steps:,}"
    )
    yield warmup_note("actor", ppo.actor, steps.optimizer_steps)
    yield warmup_note("critic", ppo.critic, steps.optimizer_steps)
    if episodes := steps.evaluations * facts.eval_rows * ppo.eval_samples:
        yield (
            f"evaluation: every {counted(ppo.eval_every, 'step')}, {steps.evaluations} x {facts.eval_rows} dev tasks x "
            f"{counted(ppo.eval_samples, 'sample')} = {episodes:,} episodes"
        )
    if ppo.export_every is not None and ppo.export_every != ppo.save_every:
        yield (
            f"exports: OpenRLHF exports with every checkpoint ({ppo.save_every} steps); those that are no multiple of "
            f"{ppo.export_every} are removed"
        )


def _tasks(ppo: Ppo, steps: PpoSteps) -> str:
    per_step, left = ppo.prompts_per_step, steps.tasks - steps.prompts
    text = f"tasks: {steps.tasks:,} = {counted(steps.per_pass, 'step')} x {per_step}"
    if not left:
        return text
    why = "to keep within ppo.max_steps" if left >= per_step else "a partial batch would run into the next"
    return f"{text} + {left:,}; the last {left:,} are left out: {why}"


def _passes(ppo: Ppo, steps: PpoSteps) -> str:
    if steps.passes == ppo.epochs:
        return counted(steps.passes, "pass", "passes")
    return f"{steps.passes} of {ppo.epochs} passes (ppo.max_steps = {ppo.max_steps})"


def ppo_warnings(config: Config, ppo: Ppo, facts: Facts, steps: PpoSteps) -> Iterator[str]:
    """Settings that are allowed and likely to disappoint."""
    if ppo.gae_lambda < 1:
        yield (
            f"ppo.gae_lambda is {ppo.gae_lambda}: OpenRLHF counts the tokens of observations too, so credit fades "
            f"across them ({ppo.gae_lambda}^200 = {ppo.gae_lambda**200:.1g} over an observation of 200 tokens)"
        )
    if ppo.top_p < 1:
        yield f"ppo.top_p is {ppo.top_p}: the trainer's log-probabilities are those of the whole distribution"
    yield from warmup_warnings("ppo.actor", ppo.actor, steps.optimizer_steps)
    yield from warmup_warnings("ppo.critic", ppo.critic, steps.optimizer_steps)
    if ppo.eval_every > 0 and not facts.eval_rows:
        yield f"ppo.eval_every is {ppo.eval_every}, but there are no dev tasks: nothing is evaluated"
    if ppo.sanity.min_entropy > 0 and ppo.entropy_coef is None:
        yield "ppo.sanity.min_entropy watches nothing: set ppo.entropy_coef to 0, which measures the entropy"
    if steps.rollout_steps < ppo.save_every:
        yield f"ppo.save_every is {ppo.save_every}, but there are {steps.rollout_steps} steps: no checkpoint on the way"


def sft_notes(sft: Sft, episodes: int, processes: int, steps: int) -> Iterator[str]:
    """The numbers of an SFT run."""
    used = episodes // processes // sft.micro_batch_size * sft.micro_batch_size * processes
    yield (
        f"optimizer steps: {used:,} of {episodes:,} episodes x {sft.epochs} epochs // {sft.batch_size} a batch "
        f"= {steps:,}"
    )
    yield warmup_note("optimizer", sft.optimizer, steps)
