"""Command lines into configs and jobs."""

import logging
import os
import sys
from pathlib import Path

import pytest

from runner.compose import compose, run_app, variants
from runner.domain.errors import Incomplete, RecipeError
from runner.schema import Provider


def test_the_quickstart_composes_with_its_groups_and_values():
    config = compose("quickstart")
    assert (config.name, config.generate.draws, config.filter.n) == ("quickstart", 12, 4)
    assert config.models.generator.provider is config.models.solver.provider is Provider.replay


def test_one_word_makes_the_quickstart_live():
    config = compose("quickstart", ["model=claude"])
    assert {config.models.generator.provider, config.models.solver.provider} == {Provider.anthropic}
    assert config.models.generator.api_key_env == "ANTHROPIC_API_KEY"
    assert config.taxonomy == compose("quickstart").taxonomy


def test_one_role_can_be_switched_alone():
    models = compose("quickstart", ["llm@models.solver=o3"]).models
    assert (models.generator.provider, models.solver.name) == (Provider.replay, "o3")


def test_the_command_line_beats_the_recipe():
    assert compose("quickstart", ["generate.draws=3", "sandbox=docker"]).generate.draws == 3
    assert compose("quickstart", ["sandbox=docker"]).sandbox.backend == "docker"


def test_the_job_gets_the_config_and_how_it_came_about():
    seen = []
    code = run_app(["quickstart", "filter.n=2"], lambda config, composition: seen.append((config, composition)) or 7)
    [(config, composition)] = seen
    assert (code, config.filter.n) == (7, 2)
    assert (composition.recipe, composition.overrides) == ("quickstart", ("filter.n=2",))
    assert (composition.sweep, composition.variant) == (None, "")
    assert composition.plain["filter"]["n"] == 2
    assert composition.plain["models"]["solver"]["provider"] == "replay"


def test_the_recipe_may_stand_anywhere_on_the_line():
    assert variants(["filter.n=2", "quickstart"])[0][0].filter.n == 2


def test_a_sweep_on_the_command_line_runs_every_variant_and_returns_the_worst_code():
    seen = []

    def job(config, composition):
        seen.append((config.filter.n, config.seed, composition.variant, composition.sweep))
        return config.filter.n - 1

    assert run_app(["quickstart", "-m", "filter.n=1,2", "seed=3"], job) == 1
    sweep = "quickstart filter.n=1,2 seed=3"
    assert seen == [(1, 3, "filter.n=1", sweep), (2, 3, "filter.n=2", sweep)]


def test_an_ablation_is_a_recipe_whose_variants_differ_in_one_dimension():
    found = variants(["ablation/taxonomy"])
    assert [composition.variant for _, composition in found] == ["drop=nothing", "drop=scenario", "drop=complexity"]
    kept = [{name for name, dim in config.taxonomy.dimensions.items() if dim} for config, _ in found]
    assert kept == [{"category", "complexity", "scenario"}, {"category", "complexity"}, {"category", "scenario"}]
    assert {composition.sweep for _, composition in found} == {"ablation/taxonomy"}
    assert {config.name for config, _ in found} == {"ablation/taxonomy"}


def test_a_wrong_variant_stops_a_sweep_before_the_first_job():
    ran = []
    with pytest.raises(RecipeError, match=r"recipe quickstart \(filter.n=0\): filter.n is 0"):
        run_app(["quickstart", "-m", "filter.n=1,0"], lambda *_: ran.append(1) or 0)
    assert ran == []


def test_a_sweep_has_no_single_config():
    with pytest.raises(RecipeError, match="is a sweep of 3 variants"):
        compose("ablation/taxonomy")


@pytest.mark.parametrize("error", [Incomplete("two items"), KeyboardInterrupt(), ZeroDivisionError("x"), SystemExit(3)])
@pytest.mark.parametrize("argv", [["quickstart"], ["quickstart", "-m", "filter.n=1,2"]])
def test_the_jobs_own_errors_come_out_unchanged(error, argv, capfd):
    def job(config, composition):
        raise error

    with pytest.raises(type(error)) as caught:
        run_app(argv, job)
    assert caught.value is error
    assert capfd.readouterr() == ("", "")


def test_cfg_job_prints_the_config_and_runs_nothing(capfd):
    assert run_app(["quickstart", "--cfg", "job", "generate.draws=5"], lambda *_: 1 / 0) == 0
    out = capfd.readouterr().out
    assert "draws: 5" in out
    assert "hydra:" not in out


def test_info_defaults_prints_where_everything_comes_from(capfd):
    assert run_app(["quickstart", "--info", "defaults"], lambda *_: 1 / 0) == 0
    assert "taxonomy/quickstart" in capfd.readouterr().out


def test_nothing_global_is_left_behind(monkeypatch):
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig

    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    before = (list(sys.argv), Path.cwd(), logging.getLogger().level, list(logging.getLogger().handlers))
    variants(["quickstart", "-m", "filter.n=1,2"])
    with pytest.raises(RecipeError):
        variants(["quickstart", "nope.nope=1"])
    assert (sys.argv, Path.cwd(), logging.getLogger().level, logging.getLogger().handlers) == before
    assert "HYDRA_FULL_ERROR" not in os.environ
    assert not GlobalHydra.instance().is_initialized()
    assert HydraConfig.instance().cfg is None


def test_composing_twice_gives_equal_configs():
    assert compose("paper/qwen2.5-7b") == compose("paper/qwen2.5-7b")
