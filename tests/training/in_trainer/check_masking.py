"""Masked episodes through OpenRLHF's own code: from the rollout's answer to the gradients of actor and critic.

Real: samples, experience, advantages, replay buffer, both trainers and their losses, a tiny Llama and a tiny critic.
Stand-ins: Ray (there is one process) and the DeepSpeed engine (a sum of gradients).
"""

import math
from types import SimpleNamespace

import pytest
import torch
from openrlhf.models import get_llm_for_sequence_regression
from openrlhf.models.actor import Actor
from openrlhf.trainer.ppo_utils import experience_maker, samples_generator
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer
from openrlhf.trainer.ray.ppo_critic import CriticPPOTrainer
from transformers import LlamaConfig, LlamaForCausalLM

from runner.domain.episode import EndReason, Episode, Outcome
from runner.training.executor.logs import KEYS, logs_of, masked_logs
from runner.training.executor.response import graded, masked
from runner.training.executor.tokens import Trajectory

VOCABULARY = 64
GROUP = 2


def args(**changed):
    flags = {
        "actor.eps_clip_low_high": [0.2, 0.28],
        "actor.dual_clip": None,
        "actor.loss_agg_mode": "seq-mean-token-mean",
        "actor.policy_loss_type": "ppo",
        "actor.aux_loss_coef": 0.0,
        "actor.entropy_coef": 0.01,
        "actor.num_nodes": 1,
        "actor.num_gpus_per_node": 1,
        "algo.advantage.estimator": "gae",
        "algo.advantage.gamma": 1.0,
        "algo.advantage.lambd": 1.0,
        "algo.advantage.no_std_norm": False,
        "algo.advantage.is_correction_level": "off",
        "algo.advantage.is_correction_mode": "mask",
        "algo.advantage.is_correction_gating": "ratio",
        "algo.advantage.is_correction_threshold": [0.5, 5.0],
        "algo.kl.use_loss": False,
        "algo.kl.init_coef": 0.0,
        "reward.clip_range": None,
        "reward.overlong_buffer_len": None,
        "reward.stop_properly_penalty_coef": None,
        "rollout.n_samples_per_prompt": GROUP,
        "rollout.micro_batch_size": 2,
        "train.dynamic_batch_enable": False,
        "train.colocate_all": False,
        "train.colocate_actor_ref": False,
        "train.colocate_critic_reward": False,
        "train.max_epochs": 1,
        "train.async_enable": False,
        "ds.packing_samples": False,
        "ds.ring_attn_size": 1,
        "ds.tensor_parallel_size": 1,
        "vllm.sync_backend": "gloo",
        **changed,
    }
    root = SimpleNamespace()
    for name, value in flags.items():
        *path, last = name.split(".")
        place = root
        for part in path:
            place.__dict__.setdefault(part, SimpleNamespace())
            place = getattr(place, part)
        setattr(place, last, value)
    return root


class Strategy:
    """One process's DeepSpeed: gradients of an optimizer step's micro-batches add up; each step's are kept."""

    ring_attn_group = None

    def __init__(self, flags, micro_batches):
        self.args = flags
        self.accumulated_gradient = micro_batches
        self.steps = []
        self._seen = 0

    def backward(self, loss, model, optimizer):
        (loss / self.accumulated_gradient).backward()

    def optimizer_step(self, optimizer, model, scheduler, name):
        self._seen += 1
        if self._seen % self.accumulated_gradient == 0:
            self.steps.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
            model.zero_grad()

    def get_grad_norm(self, model):
        return 0.0

    def all_reduce(self, status):
        return status

    def is_rank_0(self):
        return False


class Group:
    """A Ray actor group of one model, in this process."""

    def __init__(self, model):
        self._model = model

    def async_run_method_batch(self, *, method_name, sequences, action_mask, attention_mask, **_):
        with torch.no_grad():
            batches = zip(sequences, action_mask, attention_mask, strict=True)
            return [[self._model(s, a, attention_mask=m) for s, a, m in batches]]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    store = tmp_path_factory.mktemp("group") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield make_models(tmp_path_factory.mktemp("policy"))
    torch.distributed.destroy_process_group()


def make_models(folder):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    critic = get_llm_for_sequence_regression(
        str(folder), "critic", attn_implementation="eager", param_dtype="bf16", init_value_head=True
    )
    actor = Actor(str(folder), attn_implementation="eager", param_dtype="bf16")
    return actor.float(), critic.float()


def an_episode(seed, *, measured=False):
    """Two turns with an observation between them."""
    dice = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCABULARY, (40,), generator=dice).tolist()
    trajectory = Trajectory(prompt=ids[: 5 + seed % 3], limit=100, measured=measured)
    for start, end in ((8, 14), (18, 20 + seed % 5)):
        trajectory.observe(ids[start - 3 : start] if trajectory.actions else [])
        sampled = ids[start:end]
        trajectory.act(sampled, [-1.0] * len(sampled) if measured else None)
    outcome = Outcome.PASS if seed % 3 == 0 else Outcome.FAIL
    episode = Episode(task_id="t", sample=seed, outcome=outcome, end=EndReason.DONE)
    logs = logs_of(episode, trajectory.sampled, seconds=1.0, grading_seconds=0.1, retries=0)
    return graded("p", "t", trajectory, reward=float(seed % 3 == 0), truncated=False, logs=logs)


def a_masked_episode(*, measured=False):
    trajectory = Trajectory(prompt=[1, 2, 3], limit=100, measured=measured)
    return masked("p", "t", trajectory, masked_logs(seconds=9.0, retries=2))


class Answers:
    """A samples generator whose rollouts are known."""

    def __init__(self, flags, responses):
        self.generator = SamplesGenerator(SimpleNamespace(args=flags), None, None, None, ["engine"])
        self.generator._dispatch_prompts_to_vllm = lambda *_, **__: [
            responses[i : i + GROUP] for i in range(0, len(responses), GROUP)
        ]

    def samples(self):
        prompts = iter([(None, ["p"], ["t"], [None])] * 100)
        found, _, _ = self.generator._generate_vllm(prompts, 1, False, max_len=100)
        return found


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    ray = SimpleNamespace(get=lambda it: it, put=lambda it: it, wait=lambda refs, **_: (refs[:1], refs[1:]))
    monkeypatch.setattr(experience_maker, "ray", ray)
    monkeypatch.setattr(samples_generator, "ray", ray)


def train(models, responses, flags, *, micro_batch=1, steps=1):
    """Actor's and critic's gradients of each optimizer step, and everything they logged."""
    actor, critic = models
    # OpenRLHF wants whole groups; the figures of a group play no part in GAE
    flags.rollout.n_samples_per_prompt = GROUP if len(responses) % GROUP == 0 else 1
    samples = Answers(flags, responses).samples()
    strategy = SimpleNamespace(args=flags)
    maker = RemoteExperienceMaker(
        Group(actor), Group(critic), None, None, SimpleNamespace(value=0.0), strategy, SimpleNamespace(pad_token_id=0)
    )
    experiences = maker.make_experience_batch(samples)
    found, logged = [], {}
    for kind, model in ((ActorPPOTrainer, actor), (CriticPPOTrainer, critic)):
        strategy = Strategy(flags, len(responses) // micro_batch // steps)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        scheduler = SimpleNamespace(get_last_lr=lambda: [0.0])
        trainer = make_trainer(kind, strategy, model, optimizer, scheduler, micro_batch)
        trainer.replay_buffer.items.clear()
        for experience in experiences:
            trainer.replay_buffer.append(experience)
        logged |= trainer.ppo_train(0.0) if kind is ActorPPOTrainer else trainer.ppo_train()
        found.append(strategy.steps)
    return found, logged


def make_trainer(kind, strategy, model, optimizer, scheduler, micro_batch):
    shared = {"micro_train_batch_size": micro_batch, "buffer_cpu_offload": True, "dataloader_pin_memory": False}
    if kind is ActorPPOTrainer:
        return kind(strategy, model, None, optimizer, scheduler, **shared, tokenizer=None)
    return kind(strategy, model, optimizer, scheduler, **shared, value_clip=0.2)


def assert_equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other) > 0
        for step, same in zip(one, other, strict=True):
            for a, b in zip(step, same, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)
            assert any(float(gradient.abs().max()) > 1e-4 for gradient in step)


MODES = [
    {},
    {"actor.loss_agg_mode": "token-mean"},
    {"algo.advantage.is_correction_level": "token"},
    {"algo.advantage.is_correction_level": "seq"},
    {"algo.advantage.no_std_norm": True},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("micro_batch", [1, 2])
def test_gradients_with_masked_episodes_are_the_gradients_without_them(models, mode, micro_batch):
    measured = "algo.advantage.is_correction_level" in mode
    valid = [an_episode(seed, measured=measured) for seed in range(6)]
    gone = a_masked_episode(measured=measured)
    with_masked, logged = train(models, [gone, *valid[:5], gone, valid[5]], args(**mode), micro_batch=micro_batch)
    without, clean = train(models, valid, args(**mode), micro_batch=micro_batch)
    assert_equal(with_masked, without)
    assert all(math.isfinite(value) for value in logged.values()), logged
    assert logged["masked"] == pytest.approx(2 / 8)
    assert logged["infra_retries"] == pytest.approx(2 * 2 / 8)
    for name in ("turns", "end_done", "seconds"):
        assert logged[name] == pytest.approx(clean[name])


def test_an_optimizer_step_of_masked_episodes_alone_has_no_gradient_and_spoils_no_figure(models):
    found, logged = train(models, [a_masked_episode() for _ in range(4)], args())
    for steps in found:
        assert len(steps) == 1
        assert all(float(gradient.abs().max()) == 0.0 for gradient in steps[0])
    assert all(math.isfinite(value) for value in logged.values()), logged
    assert logged["masked"] == 1.0


def test_a_masked_episode_counts_as_the_mean_of_its_siblings_wherever_figures_are_averaged():
    responses = [an_episode(0), a_masked_episode(), an_episode(1), an_episode(2)]
    samples = Answers(args(), responses).samples()
    assert [float(sample.rewards) for sample in samples] == [1.0, 1.0, 0.0, 0.0]
    assert [float(sample.info["passed"]) for sample in samples] == [1.0, 1.0, 0.0, 0.0]
    assert int(samples[1].response_length) == int(samples[0].response_length) > 0
    assert set(KEYS) <= set(samples[1].info)


def test_a_wholly_masked_prompt_counts_as_the_mean_of_the_others():
    responses = [a_masked_episode(), a_masked_episode(), an_episode(0), an_episode(1)]
    samples = Answers(args(), responses).samples()
    assert [float(sample.rewards) for sample in samples] == [0.5, 0.5, 1.0, 0.0]
