"""A dimension can be fixed, re-weighted, dropped or added by config alone."""

from runner.compose import compose
from runner.taxonomy import draw


def labels(*overrides, count=12):
    config = compose("quickstart", overrides)
    return [draw(config.taxonomy, config.seed, index) for index in range(count)]


def test_fix():
    assert {label["complexity"] for label in labels("taxonomy.dimensions.complexity.fixed='2-3 commands'")} == {
        "2-3 commands"
    }


def test_reweight():
    found = [
        label["complexity"] for label in labels("taxonomy.dimensions.complexity.values={2-3 commands: 12}", count=23)
    ]
    assert found.count("2-3 commands") == 12


def test_leave_a_value_out():
    found = labels("taxonomy.dimensions.category.values={log analysis: 0}", count=60)
    assert "log analysis" not in {label["category"] for label in found}


def test_drop_in_three_ways():
    whole = [{key: value for key, value in label.items() if key != "scenario"} for label in labels()]
    for override in ("taxonomy.dimensions.scenario=null", "~taxonomy.dimensions.scenario", "+drop=scenario"):
        assert labels(override) == whole


def test_add():
    found = labels("+taxonomy.dimensions.tone={values: {terse: 1, chatty: 1}}")
    assert sorted(label.pop("tone") for label in found) == ["chatty"] * 6 + ["terse"] * 6
    assert found == labels()


def test_add_and_fix_in_a_file(write):
    body = """
defaults: [/recipes/quickstart]
name: own
taxonomy:
  sampling: independent
  dimensions:
    category: {fixed: log analysis}
    scenario: null
    shell: {description: Which shell., values: {bash: 3, dash: 1}}
"""
    config = compose(write(body))
    drawn = [draw(config.taxonomy, 0, index) for index in range(40)]
    assert {tuple(label) for label in drawn} == {("category", "complexity", "shell")}
    assert {label["category"] for label in drawn} == {"log analysis"}
    assert {label["shell"] for label in drawn} == {"bash", "dash"}
