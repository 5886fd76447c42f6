"""The plan: what data training will get, and what the terminal shows of it."""

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.console import Console

from runner.cli.plan_training import print_training
from runner.pipeline.compile import compile_recipe
from runner.pipeline.training_data import training_counts
from runner.store.artifacts import Store
from runner.training.compile import Counts, training_plan

KNOWN = Counts(train=8, dev=2, passing=12, known=True)


def shown(config, counts, width: int = 100) -> str:
    screen = Console(file=io.StringIO(), width=width, highlight=False)
    print_training(screen, config, counts)
    return screen.file.getvalue()


@pytest.fixture
def own_flags(recipe, tmp_path):
    """Recipes that ask a Python without OpenRLHF: the plan is the same on every machine."""
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '[\"\", []]'\n")
    python.chmod(0o755)
    return lambda *overrides, **more: recipe(f"training.python={python}", *overrides, **more)


def test_the_plan_of_a_paper_recipe_has_all_that_decides_about_it(own_flags):
    text = shown(own_flags(name="paper/qwen2.5-7b"), Counts(train=3155, dev=100, passing=0, known=True), width=160)
    for part in (
        "ppo  3,155 tasks, 100 for dev",
        "1 node x 4 GPUs, shared in turns by actor, critic and 4 vLLM engines x 1 GPU",
        "1,970 rollouts, 3,940 optimizer steps",
        "508,220, evaluations included",
        "about 8,470.3 container-hours at 60 s an episode; 264.7 hours on the clock with 32 at once",
        "against our table of OpenRLHF 0.11.2, which is not installed here",
        "-> ratio 0.005",
        "ppo.normalize_rewards: normalised rewards ->",
        "-m openrlhf.cli.train_ppo_ray",
        "--rollout.batch_size 16 --rollout.n_samples_per_prompt 16",
    ):
        assert part in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_plan_fits_the_terminal(width, own_flags):
    config = own_flags("sft=quick")
    long_words = ("ENDLESS", "/python", "--critic.model", "--actor.model")
    for line in shown(config, KNOWN, width).splitlines():
        assert len(line) <= width or any(word in line for word in long_words), line


def test_the_command_can_be_pasted_into_a_shell(own_flags):
    config = own_flags("+training.env.NOTE='two words'")
    plan = training_plan(config, KNOWN)[0]
    text = shown(config, KNOWN).partition("\n\n  ")[2]
    words = shlex.split(text.replace("\\\n", ""))
    assert "NOTE=two words" in words
    assert words[-len(plan.command.argv) :] == list(plan.command.argv)


def test_sft_comes_first_and_ppo_starts_from_its_model(own_flags):
    sft, ppo = training_plan(own_flags("sft=quick"), KNOWN)
    assert (sft.phase, ppo.phase) == ("sft", "ppo")
    assert ppo.command is not None
    assert ppo.command.argv[:2] == ("--actor.model_name_or_path", "sft/model")


def test_data_that_does_not_fill_a_step_is_shown_and_no_error(own_flags):
    text = shown(own_flags(), Counts(train=3, dev=0, passing=0, known=False))
    assert "about 3 tasks, 0 for dev, until the dataset is done" in text
    assert "ppo.prompts_per_step is 8, but there are only 3 training tasks" in text


def test_a_cluster_gets_the_command_as_a_job(own_flags):
    text = shown(own_flags("training.ray_address=http://head:8265", name="paper/qwen2.5-7b"), KNOWN, 200)
    assert "ppo.prompts_per_step is 16" in text  # 8 tasks
    plenty = Counts(train=32, dev=2, passing=0, known=True)
    text = shown(own_flags("training.ray_address=http://head:8265", name="paper/qwen2.5-7b"), plenty, 200)
    assert "ray job submit --address http://head:8265 -- " in text


def test_expected_data_is_marked_and_finished_data_is_counted(own_flags, tmp_path):
    config = own_flags("sft=solver", "sft.max_per_task=2", "sft.batch_size=1")
    steps, store = compile_recipe(config), Store(tmp_path / "store")
    expected = training_counts(config, steps, store)
    assert (expected.known, expected.train, expected.dev, expected.passing) == (False, 6, 1, 12)
    folders = {step.name: store.folder(step.name, step.fingerprint) for step in steps}
    write(folders["dataset"] / "split.json", {"train": ["a", "b", "c"], "dev": ["d"]})
    write(
        folders["filter"] / "tasks.jsonl",
        *({"task_id": task, "passes": n} for task, n in (("a", 4), ("b", 1), ("d", 3))),
    )
    counted = training_counts(config, steps, store)
    assert counted == Counts(train=3, dev=1, passing=3, known=True)


def test_conversations_of_ones_own_are_counted_in_their_file(own_flags, tmp_path):
    path = tmp_path / "traces.jsonl"
    write(path, *({"messages": []} for _ in range(5)))
    config = own_flags("sft=solver", f"sft.episodes={path}")
    assert training_counts(config, compile_recipe(config), Store(tmp_path / "store")).passing == 5


def write(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
