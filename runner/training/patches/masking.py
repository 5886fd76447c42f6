"""Masked episodes count for nothing in OpenRLHF 0.11.2: not in a gradient, not in a mean, not in a figure of the log.

An episode that infrastructure kept from ending comes back as its prompt, with no action token. OpenRLHF nearly copes:
its losses leave out sequences without action tokens and count only the others. What does not work there, and here does:

=======================================  ============================================================================
``models.utils.masked_mean``             0/0 over an empty mask makes NaN of KL, value and clip figures: it gives 0
``utils.loss_utils``                     an optimizer step of masked episodes alone divides its loss by 0: by 1
``ActorPPOTrainer.training_step``        a micro-batch of masked episodes alone ends the training, with a division by 0
                                         when its figures are weighed by its tokens: they weigh next to nothing
``...compute_advantages_and_returns``    a whole batch of masked episodes makes NaN of all advantages: they stay 0
``SamplesGenerator._generate_vllm``      a masked episode's reward, length and logged figures would enter means as
                                         zeros: it gets the mean of its prompt's other episodes, or of the batch's
=======================================  ============================================================================

The gradient of a step with masked episodes is that of the step without them (``tests/live/test_masking.py``), batch
sizes stay what they are, and an optimizer step in which all are masked moves nothing but what Adam has in store.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from runner.training.executor.logs import INFRA_RETRIES, MASKED

VERSION = "0.11.2"
"""The OpenRLHF whose internals are known here."""

NEXT_TO_NOTHING = 1e-6
"""Action tokens that a micro-batch without any counts as, in the weights of logged means alone."""

OWN = frozenset({MASKED, INFRA_RETRIES, "response_clip_ratio"})
"""Logged figures that a masked episode has itself."""


def _check_version() -> None:
    """Raises RuntimeError for an OpenRLHF that is not known here."""
    from importlib.metadata import version

    found = version("openrlhf")
    if found != VERSION:
        raise RuntimeError(f"masking is made for OpenRLHF {VERSION}, and this is {found}")


def _safe_mean(module: Any) -> None:
    """After ``openrlhf.models.utils``, which every process of the trainer imports."""
    _check_version()

    def masked_mean(tensor: Any, mask: Any, dim: int | None = None) -> Any:
        if mask is None:
            return tensor.mean(dim=dim)
        return (tensor * mask).sum(dim=dim) / mask.sum(dim=dim).clamp(min=1)

    module.masked_mean = masked_mean


def _safe_norms(module: Any) -> None:
    """After ``openrlhf.utils.loss_utils``: what losses are divided by is never 0."""
    for name in ("get_loss_batch_info", "_optimizer_step_loss_norm"):
        setattr(module, name, _nonzero(getattr(module, name)))


def _nonzero(norms: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    @wraps(norms)
    def wrapped(*args: Any, **kwargs: Any) -> dict[str, Any]:
        found = norms(*args, **kwargs)
        for name in ("batch_num_tokens", "global_batch_size"):
            found[name] = found[name] + (found[name] == 0)
        return found

    return wrapped


def _safe_advantages(module: Any) -> None:
    """After ``openrlhf.trainer.ppo_utils.experience_maker``."""
    maker = module.RemoteExperienceMaker
    compute = maker.compute_advantages_and_returns

    @wraps(compute)
    def compute_advantages_and_returns(self: Any, experiences: list[Any]) -> list[Any]:
        done: list[Any] = compute(self, experiences)
        if not any(bool(experience.action_mask.any()) for experience in done):
            for experience in done:
                experience.advantages = experience.returns.new_zeros(experience.returns.shape)
        return done

    maker.compute_advantages_and_returns = compute_advantages_and_returns


def _safe_weights(module: Any) -> None:
    """After ``openrlhf.trainer.ray.ppo_actor``."""
    trainer = module.ActorPPOTrainer
    step = trainer.training_step

    @wraps(step)
    def training_step(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        status: dict[str, Any] = step(self, *args, **kwargs)
        status["num_action_tokens"] = max(status["num_action_tokens"], NEXT_TO_NOTHING)
        return status

    trainer.training_step = training_step


def _clean_figures(module: Any) -> None:
    """After ``openrlhf.trainer.ppo_utils.samples_generator``: both training and evaluation samples come through it."""
    generator = module.SamplesGenerator
    generate = generator._generate_vllm

    @wraps(generate)
    def _generate_vllm(self: Any, *args: Any, **kwargs: Any) -> Any:
        samples, consumed, exhausted = generate(self, *args, **kwargs)
        fill(samples, kwargs.get("n_samples_per_prompt", self.args.rollout.n_samples_per_prompt))
        return samples, consumed, exhausted

    generator._generate_vllm = _generate_vllm


def fill(samples: Sequence[Any], group: int) -> None:
    """Give masked samples (of one episode each, ``group`` in a row of one prompt) the means of the others, in place."""
    valid = [sample for sample in samples if not _is_masked(sample)]
    for start in range(0, len(samples), group):
        siblings = samples[start : start + group]
        sources = [sample for sample in siblings if not _is_masked(sample)] or valid
        for sample in siblings:
            if _is_masked(sample) and sources:
                _fill_one(sample, sources)


def _is_masked(sample: Any) -> bool:
    return bool(sample.info[MASKED].any()) if MASKED in sample.info else False


def _fill_one(sample: Any, sources: Sequence[Any]) -> None:
    for name in ("rewards", "scores", "response_length", "truncated"):
        setattr(sample, name, _mean([getattr(source, name) for source in sources]))
    for name in sample.info:
        if name not in OWN:
            sample.info[name] = _mean([source.info[name] for source in sources])


def _mean(values: Sequence[Any]) -> Any:
    """The mean of one-element tensors, in their own type."""
    if values[0] is None:
        return None
    total = sum(value.double() for value in values) / len(values)
    return total.round().to(values[0].dtype) if not values[0].is_floating_point() else total.to(values[0].dtype)


AFTER: dict[str, Callable[[Any], None]] = {
    "openrlhf.models.utils": _safe_mean,
    "openrlhf.utils.loss_utils": _safe_norms,
    "openrlhf.trainer.ppo_utils.experience_maker": _safe_advantages,
    "openrlhf.trainer.ray.ppo_actor": _safe_weights,
    "openrlhf.trainer.ppo_utils.samples_generator": _clean_figures,
}
