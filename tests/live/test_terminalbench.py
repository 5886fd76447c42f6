"""A recipe's benchmark from one command: the real Harbor plays exported tasks with a live model, within the budget."""

import json
import os
from pathlib import Path

import pytest
from support.endless import Workplace
from support.loopback import Loopback
from support.real_harbor import DONE, ENVIRONMENT, TESTS, command, harbor_python

from runner.store.jsonl import read_lines

pytestmark = [pytest.mark.live, pytest.mark.harbor, pytest.mark.docker, pytest.mark.timeout(600)]

REPLIES = [command("ls"), command("pwd"), DONE]


def reply(call: object) -> str:
    return REPLIES[sum(role == "assistant" for role, _ in call.messages)]  # type: ignore[attr-defined]


def test_a_benchmark_stops_at_the_budget_and_goes_on_where_it_was(
    local_workplace: Workplace, docker_address: str, tmp_path: Path
) -> None:
    place = local_workplace
    place.run("quickstart", "phases=[generate,filter,dataset]")
    tasks = sorted(path.parent for path in place.store.glob("dataset/*/exports/harbor/*/*/task.toml"))[:2]
    (tmp_path / "tasks").mkdir()
    for task in tasks:
        (tmp_path / "tasks" / task.name).symlink_to(task)
    environment = {"PYTHONPATH": str(TESTS), "DOCKER_HOST": docker_address}
    place = Workplace(place.folder, place.sandbox, {**os.environ, **place.environment, **environment})
    with Loopback(reply=reply) as server:
        model = f"{{provider: openai, base_url: '{server.openai_url}', name: loopback}}"
        words = [
            *("run", "quickstart", *place.sandbox, "eval=full", "eval.dev=null"),
            f"+eval.terminalbench={{path: {tmp_path}/tasks, attempts: 1, environment: '{ENVIRONMENT}'}}",
            f"+eval.terminalbench.python={harbor_python()}",
            f"+eval.terminalbench.models={{one: {model}}}",
            "+eval.terminalbench.harnesses=[{agent: endless}]",
        ]
        stopped = place.endless(*words, "budget.calls=4", timeout=500)
        assert stopped.returncode != 0, stopped.stdout
        assert "all 4 calls of the budget are made" in stopped.stdout
        assert len(server.calls) == 4
        done = place.endless(*words, "budget.calls=6", timeout=500)
        assert done.returncode == 0, done.stdout
        assert len(server.calls) == 6, "an answer was paid for twice"
    (folder,) = place.store.glob("evaluate/*/terminalbench/one/endless")
    rows = list(read_lines(folder / "trials.jsonl"))
    assert [(row["turns"], row["reward"]) for row in rows] == [(3, 0.0)] * 2
    (booked,) = place.folder.glob("outputs/runs/*/ledger.jsonl")
    assert len(list(read_lines(booked))) == 6
    assert "loopback" in json.dumps(list(read_lines(booked)))
