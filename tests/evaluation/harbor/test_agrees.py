"""What the installed Harbor says of the jobs that we write, and of the exceptions that we judge."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account
from support.real_harbor import TESTS, harbor_python

from runner.evaluation.harbor.job import job_config
from runner.evaluation.harbor.outcomes import COUNTS, INFRA
from runner.evaluation.harbor.request import HarborRun
from runner.schema import Model, Price, Provider
from runner.schema_evaluation import Harness, TerminalBench

pytestmark = [pytest.mark.harbor, pytest.mark.live]

CHECK = """
import json, sys
from harbor.agents.factory import AgentFactory, agent_config_kwargs
from harbor.models.job.config import JobConfig
from harbor.models.trial.error_policy import ERROR_POLICIES
for raw in json.load(sys.stdin):
    config = JobConfig.model_validate(raw)
    assert set(raw) <= set(JobConfig.model_fields), raw
    for agent in config.agents:
        AgentFactory.get_agent_class_from_config(agent).parse_options(dict(agent.kwargs))
print(json.dumps({name: policy.has_valid_reward for name, policy in ERROR_POLICIES.items()}))
"""
SERVED = Model(provider=Provider.vllm, name="ppo", base_url="http://127.0.0.1:1", api_key_env="KEY", temperature=0.5)


def configs(folder: Path) -> list[dict[str, Any]]:
    """Jobs of every kind."""
    runs = [
        HarborRun(
            bench=bench,
            harness=harness,
            model=SERVED,
            folder=folder,
            account=account(folder, prices={"ppo": Price(input=1.0, output=2.0)}),
        )
        for bench in (
            TerminalBench(),
            TerminalBench(dataset="org/name", commit="abc"),
            TerminalBench(path=str(folder), tasks=["a*"], environment="pkg.mod:Own", harbor={"quiet": True}),
        )
        for harness in (Harness(), Harness(agent="terminus-2", kwargs={"max_turns": 9}), Harness(agent="oracle"))
    ]
    return [job_config(run) for run in runs]


def test_harbor_takes_our_jobs_and_judges_its_exceptions_as_we_do(tmp_path: Path) -> None:
    (tmp_path / "a1").mkdir()
    (tmp_path / "a1" / "task.toml").touch()
    done = subprocess.run(
        [harbor_python(), "-c", CHECK],
        input=json.dumps(configs(tmp_path)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]), "HARBOR_TELEMETRY": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout)
    assert {name for name, valid in theirs.items() if valid} == set(COUNTS)
    assert {name for name, valid in theirs.items() if not valid} <= set(INFRA)
