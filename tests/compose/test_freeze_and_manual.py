"""The frozen recipe, and the manual read from the schema's docstrings."""

import yaml

from runner.compose import compose, describe_keys, freeze, variants


def test_a_frozen_recipe_is_a_recipe_that_composes_to_the_same_config(tmp_path):
    [(config, composition)] = variants(["quickstart", "generate.draws=3", "+taxonomy.dimensions.tone.fixed='a: b'"])
    freeze(composition, tmp_path / "recipe.yaml")
    assert compose(str(tmp_path / "recipe.yaml")) == config
    text = (tmp_path / "recipe.yaml").read_text()
    assert "from the recipe quickstart with generate.draws=3" in text
    assert {key: value for key, value in yaml.safe_load(text).items() if key != "defaults"} == composition.plain


def test_a_frozen_paper_recipe_composes_to_the_same_config(tmp_path):
    [(config, composition)] = variants(["paper/qwen3-8b-sft"])
    freeze(composition, tmp_path / "recipe.yaml")
    assert compose(str(tmp_path / "recipe.yaml")) == config


def test_a_frozen_variant_is_not_a_sweep(tmp_path):
    config, composition = variants(["ablation/taxonomy"])[1]
    freeze(composition, tmp_path / "recipe.yaml")
    assert compose(str(tmp_path / "recipe.yaml")) == config


def test_every_key_has_a_type_and_a_default_as_the_schema_says():
    manual = {entry.key: entry for entry in describe_keys()}
    assert (manual["filter.n"].type, manual["filter.n"].default) == ("whole number", 16)
    assert manual["filter.keep"].doc.startswith("Predicates, all of which must hold: ``NAME OP NUMBER`` with OP one")
    assert manual["taxonomy.dimensions.<name>.values"].type == "mapping of name to number"
    assert manual["models.solver.provider"].type == "openai | anthropic | vllm | replay"
    assert manual["models.solver"].doc == "Attempts tasks in the filter."
    assert manual["sandbox"].doc == "Where tasks are built and agents run."
    assert manual["prices.<name>.cached"].type == "number or null"
    assert manual["agent.prompt"].default == "default"
    assert (manual["ppo.actor.lr"].default, manual["ppo.critic.lr"].default) == (5e-7, 1e-6)


def test_every_key_of_a_real_config_is_in_the_manual():
    [(_, composition)] = variants(["quickstart"])
    keys = {entry.key for entry in describe_keys()}
    sections = ("models.solver", "agent", "generate", "filter", "dataset", "tracking", "executor", "sandbox", "budget")
    for section in sections:
        values = composition.plain
        for part in section.split("."):
            values = values[part]
        assert {f"{section}.{name}" for name in values} <= keys
