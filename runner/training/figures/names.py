"""From the trainer's tags to our metric names: equal in every run, whatever OpenRLHF calls them."""

_PPO = {
    "train/ppo_kl": "kl",
    "train/ppo_clip_ratio": "clip_fraction",
    "train/vllm_kl": "engine_kl",
    "train/entropy_loss": "entropy",
    "train/actor_lr": "actor/lr",
    "train/actor_grad_norm": "actor/grad_norm",
    "train/critic_lr": "critic/lr",
    "train/critic_grad_norm": "critic/grad_norm",
    "train/critic_loss": "value_loss",
    "train/values": "value",
    "train/timing/generation": "seconds_rollout",
    "train/timing/make_experience": "seconds_experience",
    "train/timing/ppo_train": "seconds_update",
    "train/timing/broadcast": "seconds_weights",
    "train/timing/step_total": "seconds_step",
    "train/rollout/reward_mean": "reward",
    "train/rollout/reward_std": "reward_std",
    "train/rollout/response_length_mean": "response_length",
    "train/rollout/truncated_rate": "truncated",
    "train/rollout/num_samples": "episodes",
    "train/seconds": "episode/seconds",
    "train/seconds_model": "episode/seconds_model",
    "train/seconds_shell": "episode/seconds_shell",
    "train/seconds_grading": "episode/seconds_grading",
    "train/seconds_waiting": "episode/seconds_waiting",
    "eval/eval_endless_pass1": "dev/pass_at_1",
    "eval/eval_num_samples": "dev/episodes",
    "eval/eval_endless_response_length_mean": "dev/response_length",
    "eval/eval_endless_truncated_rate": "dev/truncated",
}
_SFT = {"train/gpt_loss": "loss", "train/loss_mean": "loss_mean"}
_DROPPED = frozenset(
    {
        "train/reward",  # weighed by micro-batch: rollout/reward_mean is the plain mean over episodes
        "train/score",
        "train/response_length",
        "train/truncated",
        "train/response_clip_ratio",
        "train/total_length",
        "eval/eval_response_length_mean",
        "eval/eval_truncated_rate",
        "train/epoch",
        "train/global_step",
    }
)


def metric_name(phase: str, tag: str) -> str | None:
    """``ppo/reward`` for a tag; None for one that says nothing of its own."""
    if tag in _DROPPED:
        return None
    known = (_PPO if phase == "ppo" else _SFT).get(tag)
    if known is None and phase == "ppo" and tag.startswith("eval/eval_endless_pass"):
        known = f"dev/pass_at_{tag.removeprefix('eval/eval_endless_pass')}"
    return f"{phase}/{known or tag.removeprefix('train/')}"
