"""A recipe's benchmark in Harbor's own words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account

from runner.domain.errors import RecipeError
from runner.evaluation.harbor.job import job_config, process_environment, resume_words, run_words
from runner.evaluation.harbor.request import HarborRun
from runner.evaluation.harbor.settings import read_settings, write_settings
from runner.schema import Agent, Model, Price, Provider
from runner.schema_evaluation import Harness, TerminalBench

SERVED = Model(provider=Provider.vllm, name="ppo", base_url="http://127.0.0.1:8123", temperature=0.7)


def run(folder: Path = Path("/somewhere"), *, model: Model = SERVED, **keys: Any) -> HarborRun:
    keys = {"bench": TerminalBench(), "harness": Harness(), "account": account(folder), **keys}
    return HarborRun(model=model, folder=folder, **keys)


def config(one: HarborRun) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(job_config(one)))
    return made


def terminus(**keys: Any) -> HarborRun:
    return run(harness=Harness(agent="terminus-2", **keys))


def test_a_benchmark_is_a_dataset_of_the_registry_with_its_version() -> None:
    made = config(run(bench=TerminalBench(attempts=7, concurrency=3, tasks=["a*"]), retries=2))
    policy = made.pop("override_error_policy")
    assert policy["EngineError"] == {"should_retry": True, "should_grade": False, "has_valid_reward": False}
    assert policy["MissingRequirement"]["should_retry"] is False
    assert made == {
        "job_name": "harbor",
        "jobs_dir": "/somewhere",
        "n_attempts": 7,
        "n_concurrent_trials": 3,
        "retry": {"max_retries": 2},
        "environment": {"type": "docker"},
        "agents": [
            {
                "import_path": "runner.evaluation.harbor:EndlessAgent",
                "model_name": "ppo",
                "kwargs": {"settings": "/somewhere/agent.json"},
            }
        ],
        "datasets": [{"name": "terminal-bench", "version": "2.0", "task_names": ["a*"]}],
    }


def test_a_package_of_the_hub_is_taken_at_its_commit() -> None:
    bench = TerminalBench(dataset="org/terminal-bench", commit="abc123")
    assert config(run(bench=bench))["datasets"] == [{"name": "org/terminal-bench", "ref": "abc123"}]


def test_a_folder_of_tasks_takes_the_place_of_the_registry(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "task.toml").touch()
    assert config(run(bench=TerminalBench(path=str(tmp_path))))["datasets"] == [{"path": str(tmp_path)}]
    with pytest.raises(RecipeError, match="there is none of two, three\\* in"):
        config(run(bench=TerminalBench(path=str(tmp_path), tasks=["two", "three*"])))
    with pytest.raises(RecipeError, match="there is no Harbor task"):
        config(run(bench=TerminalBench(path=str(tmp_path / "one"))))
    with pytest.raises(RecipeError, match="there is no folder"):
        config(run(bench=TerminalBench(path=str(tmp_path / "gone"))))


def test_a_recipe_may_say_more_in_harbors_words() -> None:
    more = {"environment": {"override_memory_mb": 4096}, "timeout_multiplier": 2.0}
    made = config(run(bench=TerminalBench(environment="pkg.module:Own", harbor=more)))
    assert made["environment"] == {"import_path": "pkg.module:Own", "override_memory_mb": 4096}
    assert made["timeout_multiplier"] == 2.0


def test_terminus_asks_the_same_model_with_the_same_context() -> None:
    one = replace(
        terminus(kwargs={"max_turns": 50}),
        account=account(Path("/somewhere"), prices={"ppo": Price(input=1.0, output=2.0)}),
    )
    (agent,) = config(replace(one, agent=Agent(context_tokens=9000, turn_tokens=500)))["agents"]
    assert agent == {
        "name": "terminus-2",
        "model_name": "openai/ppo",
        "kwargs": {
            "model_info": {
                "max_input_tokens": 9000,
                "max_output_tokens": 500,
                "input_cost_per_token": 1e-6,
                "output_cost_per_token": 2e-6,
            },
            "temperature": 0.7,
            "max_turns": 50,
        },
    }
    env = process_environment(one, {"PATH": "/bin"})
    assert env["OPENAI_BASE_URL"] == "http://127.0.0.1:8123/v1"
    assert env["OPENAI_API_KEY"] == "none"


def test_a_servers_port_is_not_part_of_a_job() -> None:
    elsewhere = replace(SERVED, base_url="http://127.0.0.1:9999")
    for one in (run(), terminus()):
        assert config(one) == config(replace(one, model=elsewhere))


def test_keys_are_named_and_never_written(tmp_path: Path) -> None:
    model = Model(provider=Provider.anthropic, name="claude-x", api_key_env="MY_KEY")
    one = replace(terminus(), model=model, folder=tmp_path)
    env = process_environment(one, {"MY_KEY": "sk-secret"})
    assert env["ANTHROPIC_API_KEY"] == "sk-secret"
    (agent,) = config(one)["agents"]
    assert (agent["model_name"], agent["model_api_key_name"]) == ("anthropic/claude-x", "MY_KEY")
    write_settings(tmp_path / "agent.json", replace(one, harness=Harness()).settings())
    assert "sk-secret" not in json.dumps(config(one)) + (tmp_path / "agent.json").read_text()


def test_harbors_own_agents_get_no_model() -> None:
    assert config(run(harness=Harness(agent="oracle")))["agents"] == [{"name": "oracle", "kwargs": {}}]


def test_only_our_agent_can_be_replayed() -> None:
    with pytest.raises(RecipeError, match="'terminus-2' cannot be replayed"):
        config(replace(terminus(), model=Model(provider=Provider.replay)))


def test_harbor_sends_no_telemetry_and_finds_this_code() -> None:
    env = process_environment(run(), {"PYTHONPATH": "/mine"})
    assert env["HARBOR_TELEMETRY"] == "off"
    assert env["PYTHONPATH"].endswith(":/mine")
    assert "OPENAI_BASE_URL" not in env


def test_the_agents_settings_survive_their_file(tmp_path: Path) -> None:
    one = run(
        harness=Harness(kwargs={"max_turns": 99}),
        temperature=0.3,
        account=account(Path("/somewhere"), prices={"ppo": Price(input=1.5)}),
    )
    write_settings(tmp_path / "agent.json", one.settings())
    read = read_settings(tmp_path / "agent.json")
    assert read == one.settings()
    assert read.agent == Agent(max_turns=99)
    (tmp_path / "agent.json").write_text("[]")
    with pytest.raises(RecipeError, match=r"agent\.json does not hold"):
        read_settings(tmp_path / "agent.json")


def test_an_unknown_argument_of_our_agent_is_named() -> None:
    with pytest.raises(RecipeError, match="not turns"):
        run(harness=Harness(kwargs={"turns": 3})).settings()


def test_a_job_is_begun_or_gone_on_with() -> None:
    assert run_words(Path("/x/job.json")) == ["run", "--config", "/x/job.json", "--yes"]
    assert resume_words(Path("/x/harbor")) == ["job", "resume", "--job-path", "/x/harbor"]
