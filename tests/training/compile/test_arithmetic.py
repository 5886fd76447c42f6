"""Steps, passes and warm-up ratios, by hand and against OpenRLHF's own formulas."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.schema_training import Ppo, Sft
from runner.training.compile import compile_ppo, compile_sft
from runner.training.compile.arithmetic import NotEnoughData, ppo_steps, sft_steps, warmup_ratio

PAPER = Ppo(prompts_per_step=16, samples_per_prompt=16, mini_batch_prompts=16, updates_per_step=2, epochs=10)


def test_the_papers_numbers():
    """3,255 tasks less 100 for dev: 197 steps of 16 a pass, ten passes, two updates on each rollout of 256 episodes."""
    steps = ppo_steps(PAPER, 3155)
    assert (steps.prompts, steps.per_pass, steps.passes) == (3152, 197, 10)
    assert (steps.rollout_steps, steps.batch, steps.optimizer_steps) == (1970, 256, 3940)
    assert steps.rollout_episodes == 504_320


def test_smaller_mini_batches_are_more_optimizer_steps():
    steps = ppo_steps(Ppo(prompts_per_step=16, samples_per_prompt=4, mini_batch_prompts=4, updates_per_step=3), 32)
    assert (steps.batch, steps.optimizer_per_step) == (16, 12)


@pytest.mark.parametrize(
    ("max_steps", "prompts", "passes", "rollout_steps"),
    [
        (None, 48, 10, 30),
        (1, 16, 1, 1),
        (2, 32, 1, 2),  # fewer than a pass: fewer tasks
        (3, 48, 1, 3),
        (10, 48, 3, 9),  # whole passes
        (99, 48, 10, 30),
    ],
)
def test_max_steps_leaves_out_passes_or_tasks(max_steps, prompts, passes, rollout_steps):
    steps = ppo_steps(Ppo(prompts_per_step=16, epochs=10, max_steps=max_steps), 50)
    assert (steps.prompts, steps.passes, steps.rollout_steps) == (prompts, passes, rollout_steps)


@pytest.mark.parametrize(("tasks", "advice"), [(15, "set it to 15 or less"), (0, "nothing can be trained")])
def test_too_few_tasks_for_one_step_are_refused(tasks, advice):
    with pytest.raises(NotEnoughData, match=advice):
        ppo_steps(PAPER, tasks)


@given(
    tasks=st.integers(1, 5000),
    prompts=st.integers(1, 64),
    mini=st.integers(1, 8),
    samples=st.integers(1, 32),
    updates=st.integers(1, 4),
    epochs=st.integers(1, 20),
    max_steps=st.none() | st.integers(1, 400),
)
def test_steps_are_whole_and_equal_openrlhfs_own_count(tasks, prompts, mini, samples, updates, epochs, max_steps):
    ppo = Ppo(
        prompts_per_step=prompts * mini,
        mini_batch_prompts=mini,
        samples_per_prompt=samples,
        updates_per_step=updates,
        epochs=epochs,
        max_steps=max_steps,
    )
    if tasks < prompts * mini:
        with pytest.raises(NotEnoughData):
            ppo_steps(ppo, tasks)
        return
    steps = ppo_steps(ppo, tasks)
    theirs = steps.prompts * samples // steps.batch * steps.passes * updates  # prepare_datasets in ppo_trainer.py
    assert theirs == steps.optimizer_steps
    assert steps.prompts % ppo.prompts_per_step == 0
    assert 0 < steps.prompts <= tasks
    assert max_steps is None or steps.rollout_steps <= max_steps


def test_a_ratio_is_rounded_down_because_openrlhf_rounds_up():
    assert warmup_ratio(20, 3840) == 0.005
    assert math.ceil(3840 * 0.00521) == 21
    assert warmup_ratio(0, 3840) == 0.0
    assert warmup_ratio(20, 4) == 5.0  # longer than the run: the slope stays what was asked for


@given(warmup=st.integers(0, 5000), steps=st.integers(1, 200_000))
def test_openrlhf_warms_up_for_exactly_the_steps_that_were_asked_for(warmup, steps):
    assert math.ceil(steps * float(str(warmup_ratio(warmup, steps)))) == warmup


@pytest.mark.parametrize(
    ("episodes", "processes", "micro", "steps"),
    [
        (100, 1, 1, 6),  # 200 micro-batches of two epochs, 32 a batch
        (100, 8, 1, 6),  # 12 each x 2 // 4
        (36, 1, 8, 2),  # 4 whole micro-batches x 2 // 4
    ],
)
def test_sft_steps(episodes, processes, micro, steps):
    sft = Sft(batch_size=32, micro_batch_size=micro, epochs=2)
    assert sft_steps(sft, episodes, processes) == steps


def test_too_few_episodes_for_one_batch_are_refused():
    with pytest.raises(NotEnoughData, match="2 epochs of 15 episodes do not fill one batch"):
        sft_steps(Sft(batch_size=32, epochs=2), 15, 1)


def test_the_arithmetic_is_shown(recipe, facts, table):
    command = compile_ppo(recipe(name="paper/qwen2.5-7b"), facts(), table)
    assert command.notes == (
        "tasks: 3,155 = 197 steps x 16 + 3; the last 3 are left out: a partial batch would run into the next",
        "rollout steps: 3,152 tasks / 16 a step x 10 passes = 1,970",
        "mini-batch: 16 prompts x 16 samples = 256 episodes an optimizer step",
        "optimizer steps: 3,152 prompts x 16 samples // 256 x 10 passes x 2 updates = 3,940",
        "actor: warm-up of 20 of 3,940 optimizer steps -> ratio 0.005 (ceil(3,940 x 0.005) = 20)",
        "critic: warm-up of 20 of 3,940 optimizer steps -> ratio 0.005 (ceil(3,940 x 0.005) = 20)",
        "evaluation: every 50 steps, 39 x 100 dev tasks x 1 sample = 3,900 episodes",
        "exports: OpenRLHF exports with every checkpoint (10 steps); those that are no multiple of 20 are removed",
    )
    assert (command.rows, command.steps, command.optimizer_steps) == (3152, 1970, 3940)
    assert command.episodes == 504_320 + 3_900


def test_the_arithmetic_of_sft_is_shown(recipe, facts, table):
    command = compile_sft(recipe("sft=quick"), facts(rows=12), table)
    assert command.notes == (
        "optimizer steps: 8 of 12 episodes x 40 epochs // 8 a batch = 40",
        "optimizer: no warm-up",
    )


def test_a_limit_of_steps_is_explained(recipe, facts, table):
    command = compile_ppo(recipe("ppo.max_steps=3", name="paper/qwen2.5-7b"), facts(), table)
    assert (
        command.notes[0]
        == "tasks: 3,155 = 3 steps x 16 + 3,107; the last 3,107 are left out: to keep within ppo.max_steps"
    )
    assert command.notes[1] == "rollout steps: 48 tasks / 16 a step x 1 of 10 passes (ppo.max_steps = 3) = 3"
    assert command.warnings[0].startswith("ppo.actor.warmup_steps is 20, but there are only 6 optimizer steps")
