"""Recipes are a promise: every shipped one loads, and the paper's say what the paper says."""

import re

import pytest

from runner.compose import compose, recipe_names, variants
from runner.schema import Sampling
from runner.share import share_dir
from runner.taxonomy import combinations, draw


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (share_dir("configs") / group).glob("*.yaml"))


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_loads(name):
    for config, _ in variants([name]):
        assert config.name == name
        assert config.description
        assert draw(config.taxonomy, config.seed, 0)


def test_the_shipped_recipes_are_these():
    assert {
        "quickstart",
        "tiny",
        "ablation/taxonomy",
        "paper/llama-3.2-3b",
        "paper/qwen2.5-7b",
        "paper/qwen3-8b-sft",
    } <= set(recipe_names())


GROUPS = sorted(path.name for path in share_dir("configs").iterdir() if path.is_dir())


@pytest.mark.parametrize(
    ("group", "option"),
    [(group, option) for group in GROUPS if group not in ("llm", "drop") for option in options(group)],
)
def test_every_option_of_every_group_composes(group, option):
    more = ["models.generator.name=m", "models.solver.name=m"] if option == "compatible" else []
    more += {"sft": ["policy=tiny", "training=cpu"], "ppo": ["policy=tiny"]}.get(group, [])
    compose("quickstart", [f"{group}={option}", *more])


@pytest.mark.parametrize("option", options("llm"))
def test_every_model_can_play_either_role(option):
    more = ["models.generator.name=m", "models.solver.name=m"] if option == "compatible" else []
    compose("quickstart", [f"llm@models.generator={option}", f"llm@models.solver={option}", *more])


@pytest.mark.parametrize("option", ["claude", "openai", "o3"])
def test_every_hosted_model_has_a_price_and_names_its_key(option):
    config = compose("quickstart", [f"llm@models.solver={option}"])
    assert config.models.solver.name in config.prices
    assert config.models.solver.api_key_env


def test_the_papers_taxonomy_has_its_62_categories_6_levels_and_54_roles_with_uniform_weights():
    taxonomy = compose("paper/qwen2.5-7b").taxonomy
    sizes = {name: len(dimension.values) for name, dimension in taxonomy.dimensions.items() if dimension}
    assert sizes == {"category": 62, "complexity": 6, "scenario": 54}
    assert combinations(taxonomy) == 62 * 6 * 54
    assert taxonomy.sampling is Sampling.independent
    assert {
        weight for dimension in taxonomy.dimensions.values() if dimension for weight in dimension.values.values()
    } == {1.0}


@pytest.mark.parametrize("name", [name for name in recipe_names() if name.startswith("paper/")])
def test_the_papers_settings_are_the_papers(name):
    config = compose(name)
    agent = config.agent
    assert (config.filter.n, config.filter.keep, config.models.solver.name) == (16, ["pass_at_n > 0"], "o3")
    assert (agent.max_turns, agent.turn_tokens, agent.context_tokens, agent.episode_seconds) == (16, 2048, 16384, 300)
    assert (config.generate.rounds, config.generate.temperature, config.generate.test_temperature) == (3, 1.0, 0.6)
    assert (config.dataset.dev_tasks, config.dataset.split_seed, config.dataset.max_prompt_tokens) == (100, 42, 1536)
    assert (config.sandbox.base_image, config.sandbox.build_seconds) == ("ubuntu:22.04", 180)


def test_the_quickstart_needs_no_key_no_network_and_no_engine():
    config = compose("quickstart")
    assert (config.sandbox.backend, config.generate.draws, config.filter.n) == ("auto", 12, 4)
    assert {model.provider.name for model in (config.models.generator, config.models.solver)} == {"replay"}


@pytest.mark.parametrize(("name", "index"), [("quickstart", i) for i in range(12)] + [("tiny", i) for i in range(10)])
def test_the_draws_are_the_ones_that_the_recordings_were_made_for(name, index):
    config = compose(name)
    text = (share_dir("recipes") / f"recordings/{name}/{index:06d}.yaml").read_text()
    recorded = dict(re.findall(r"^# (category|complexity|scenario): (.+)$", text, re.MULTILINE))
    assert draw(config.taxonomy, config.seed, index) == recorded
