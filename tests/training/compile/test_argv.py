"""The commands of the paper's recipes, word by word. ``argv/*.txt`` has a flag a line."""

from pathlib import Path

import pytest

from runner.training.compile import compile_ppo, compile_sft

GOLDEN = Path(__file__).parent / "argv"


def listing(command) -> str:
    """A flag with its values a line."""
    return "".join(" ".join(flag.words) + "\n" for flag in command.flags)


@pytest.mark.parametrize("name", ["llama-3.2-3b", "qwen2.5-7b", "qwen3-8b-sft"])
def test_the_papers_ppo_is_this_command(name, recipe, facts, table):
    config = recipe(name=f"paper/{name}")
    command = compile_ppo(config, facts(model=config.training.policy), table)
    assert listing(command) == (GOLDEN / f"paper-{name}.txt").read_text()
    assert [word for flag in command.flags for word in flag.words] == list(command.argv)
    assert command.module == "openrlhf.cli.train_ppo_ray"


def test_sft_on_the_papers_machine_is_this_command(recipe, facts, table):
    config = recipe("policy=qwen3-8b", "sft=solver", name="paper/qwen3-8b-sft")
    command = compile_sft(config, facts(model=config.training.policy, rows=10_000), table)
    assert listing(command) == (GOLDEN / "paper-qwen3-8b-sft-solver.txt").read_text()
    assert command.words("python3")[:7] == [
        *("python3", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=8"),
        *("-m", "openrlhf.cli.train_sft"),
    ]


def test_a_cpu_run_is_this_command(recipe, facts, table):
    command = compile_ppo(recipe(), facts(model="/models/tiny", rows=8, eval_rows=2), table)
    assert listing(command) == (GOLDEN / "cpu.txt").read_text()
    assert command.env["DS_ACCELERATOR"] == "cpu"
    assert command.env["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize("overrides", [(), ("ppo.kl_coef=0.01",), ("ppo.colocate=false",), ("training.nodes=2",)])
def test_every_flag_comes_once(overrides, recipe, facts, table):
    command = compile_ppo(recipe(*overrides, name="paper/qwen2.5-7b"), facts(resume=True), table)
    names = [flag.name for flag in command.flags]
    assert len(names) == len(set(names))


def test_a_run_that_goes_on_loads_its_checkpoint_and_changes_nothing_else(recipe, facts, table):
    config = recipe(name="paper/qwen2.5-7b")
    fresh, resumed = (compile_ppo(config, facts(resume=resume), table).argv for resume in (False, True))
    assert [word for word in resumed if word != "--ckpt.load_enable"] == list(fresh)
    assert "--ckpt.load_enable" not in fresh


def values(command, name: str) -> tuple[str, ...] | None:
    return next((flag.values for flag in command.flags if flag.name == f"--{name}"), None)


def test_a_reference_model_is_built_where_kl_is_wanted_and_shares_the_actors_gpus(recipe, facts, table):
    split = ("ppo.kl_coef=0.01", "ppo.colocate=false", "training.gpus_per_node=8")
    command = compile_ppo(recipe(*split, name="paper/qwen2.5-7b"), facts(), table)
    assert values(command, "train.colocate_actor_ref") == ()
    assert values(command, "ref.num_gpus_per_node") == values(command, "actor.num_gpus_per_node") == ("2",)
    assert values(command, "vllm.num_engines") == ("4",)
    assert values(command, "train.colocate_all") is None
    without = compile_ppo(recipe(name="paper/qwen2.5-7b"), facts(), table)
    assert values(without, "ref.num_nodes") is None


def test_engines_fill_the_gpus_that_there_are(recipe, facts, table):
    wide = ("training.nodes=2", "training.gpus_per_node=8", "ppo.engines.tensor_parallel=4")
    command = compile_ppo(recipe(*wide, name="paper/qwen2.5-7b"), facts(), table)
    assert values(command, "vllm.num_engines") == ("4",)
    assert command.layout == ("2 nodes x 8 GPUs, shared in turns by actor, critic and 4 vLLM engines x 4 GPUs",)


@pytest.mark.parametrize(
    ("schedule", "name"),
    [("constant", "constant_with_warmup"), ("linear", "linear"), ("cosine", "cosine_with_min_lr")],
)
def test_schedules_have_the_names_of_transformers(schedule, name, recipe, facts, table):
    command = compile_ppo(recipe(f"ppo.actor.schedule={schedule}"), facts(rows=8), table)
    assert values(command, "actor.lr_scheduler") == (name,)
    assert (values(command, "actor.min_lr_ratio") is not None) == (schedule == "cosine")


def test_without_dev_tasks_nothing_is_evaluated_and_that_is_said(recipe, facts, table):
    command = compile_ppo(recipe(name="paper/qwen2.5-7b"), facts(eval_rows=0), table)
    assert not [flag for flag in command.flags if flag.name.startswith("--eval")]
    assert any("no dev tasks: nothing is evaluated" in text for text in command.warnings)


def test_the_recipes_seed_is_the_trainers_unless_it_has_its_own(recipe, facts, table):
    assert values(compile_ppo(recipe("seed=7"), facts(rows=8), table), "train.seed") == ("7",)
    assert values(compile_ppo(recipe("seed=7", "training.seed=8"), facts(rows=8), table), "train.seed") == ("8",)


def test_the_users_environment_wins(recipe, facts, table):
    command = compile_ppo(recipe("+training.env.OMP_NUM_THREADS='2'"), facts(rows=8), table)
    assert command.env["OMP_NUM_THREADS"] == "2"


def test_one_whole_checkpoint_is_there_while_the_next_is_written(recipe, facts, table):
    assert values(compile_ppo(recipe("training.keep=1"), facts(rows=8), table), "ckpt.max_num") == ("2",)
