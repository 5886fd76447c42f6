"""The real Harbor on exported tasks: its own agents, ours, and what is left when a run is killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.accounts import account
from support.endless import Workplace
from support.loopback import Loopback
from support.real_harbor import DONE, TESTS, command, containers, harbor_python, job, scripts
from support.rollouts import a_task

from runner.agent.harness import PROMPTS, Harness
from runner.agent.loop import Call
from runner.domain.episode import EndReason, Episode, Outcome
from runner.domain.errors import BudgetExceeded
from runner.domain.task import Task
from runner.evaluation.harbor import HarborRun, run_harbor
from runner.llm.factory import Clients
from runner.phases.dataset.harbor import export_harbor
from runner.prompts import PromptSet
from runner.rollout.attempt import attempt
from runner.sandbox.registry import open_backend
from runner.schema import Agent, Budget, Sandbox
from runner.share import share_dir
from runner.store.episodes import read_episodes
from runner.store.jsonl import read_lines

pytestmark = [pytest.mark.harbor, pytest.mark.docker, pytest.mark.live, pytest.mark.local, pytest.mark.timeout(280)]

AGENT = Agent(command_seconds=4.0, max_turns=20)
SHELL = [
    "cd /tmp; export A=1; f() { echo fn $A; }; shopt -s expand_aliases; alias x='echo aliased'; set -o pipefail",
    "pwd; f; x; false | true",
    "env | grep -v HOSTNAME | sort; id; umask; grep -i 'cap[eip]' /proc/self/status",
    "echo out; echo err >&2; echo out again; (exit 7)",
    "echo before; sleep 30 | cat",
    "ps -o args= -C sleep | grep -c 'sleep 30'; f",
    "head -c 3000000 /dev/zero | tr '\\0' y",
    "exit 3",
    "f; pwd; cd",
]


@dataclass(frozen=True, kw_only=True)
class Two:
    folder: Path
    tasks: dict[str, Task]


@pytest.fixture(scope="module", autouse=True)
def _support(docker_address: str) -> Iterator[None]:
    """Harbor finds the tests' environment, and the engine."""
    harbor_python()
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "DOCKER_HOST")}
    os.environ |= {"PYTHONPATH": str(TESTS), "DOCKER_HOST": docker_address}
    yield
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture
def quickstart(tmp_path: Path, local_ok: str) -> Path:
    """Every task that the quickstart exports, in one folder."""
    place = Workplace(tmp_path / "quickstart", ("sandbox=local", "tracking.enabled=false"))
    place.run("quickstart", "phases=[generate,filter,dataset]")
    folder = tmp_path / "tasks"
    folder.mkdir()
    for task in sorted(place.store.glob("dataset/*/exports/harbor/*/*")):
        shutil.copytree(task, folder / task.name)
    assert len(list(folder.iterdir())) >= 6
    return folder


@pytest.fixture
def two(tmp_path: Path) -> Two:
    """Two tasks, exported."""
    tasks = [replace(a_task(name), solution=f"wc -l < ~/{name}.txt > ~/{name}.out") for name in ("one", "two")]
    base = (share_dir("sandboxes") / "base" / "Dockerfile").read_text(encoding="utf-8")
    export_harbor(tasks, tmp_path / "tasks", base_dockerfile=base)
    return Two(folder=tmp_path / "tasks", tasks={task.id: task for task in tasks})


def in_training(task: Task, run: HarborRun, docker: Sandbox, cache: Path) -> Episode:
    """The same episode in the training harness, in a container of its own kind."""
    backend = open_backend(docker, cache=cache, run_label="test")
    try:
        with Clients(account(cache / task.id)) as clients:
            harness = Harness(run.agent, task.instruction, PromptSet.open(PROMPTS, run.agent.prompt))
            call = Call(slot=f"solve/{task.id}/0", scope="", temperature=None)
            return attempt(task, 0, harness, clients.open(run.model, "solver"), call, backend).episode
    finally:
        backend.close()


def bare(episode: Episode) -> Episode:
    """Without what no two runs share: timings, and the verifier's words."""
    turns = tuple(replace(turn, model_seconds=0.0, command_seconds=0.0) for turn in episode.turns)
    return replace(episode, turns=turns, seconds=0.0, verdict="")


def test_harbors_oracle_passes_every_exported_task_and_nop_none(quickstart: Path, tmp_path: Path) -> None:
    agents = {"agents": [{"name": "oracle"}, {"name": "nop"}]}
    result = run_harbor(job(quickstart, tmp_path / "job", "http://127.0.0.1:1", concurrency=4, harbor=agents))
    found = Counter()
    for trial in result.trials:
        agent = json.loads((tmp_path / "job" / trial.job).read_text())["agent_info"]["name"]
        assert trial.error == ""
        found[agent, trial.reward] += 1
    count = len(list(quickstart.iterdir()))
    assert found == {("oracle", 1.0): count, ("nop", 0.0): count}


def test_our_agent_gets_1_for_a_right_solution_and_0_for_a_wrong_one_with_trainings_transcripts(
    two: Two, tmp_path: Path, docker_settings: Sandbox, session_cache: Path
) -> None:
    right, wrong = two.tasks
    replies = {
        right: [*map(command, [*SHELL, two.tasks[right].solution]), DONE],
        wrong: ["no tag at all", command("echo nothing is done"), DONE],
    }
    ready = tmp_path / "job"
    with Loopback(reply=scripts(replies, two.tasks)) as server:
        run = replace(job(two.folder, ready, server.url), agent=AGENT)
        result = run_harbor(run)
        assert {trial.task: (trial.reward, trial.turns) for trial in result.trials} == {
            right: (1.0, len(SHELL) + 2),
            wrong: (0.0, 3),
        }
        episodes = list(read_episodes(ready / "episodes.jsonl"))
        assert [one.end for one in episodes] == [EndReason.DONE] * 2
        for played in episodes:
            same = in_training(two.tasks[played.task_id], run, docker_settings, session_cache)
            assert bare(played) == bare(same)
        raw = json.loads((ready / result.trials[0].job).read_text())["agent_result"]
        assert raw["n_output_tokens"] == sum(turn.output_tokens for turn in episodes[0].turns) > 0


KILLED = """
import sys
from pathlib import Path
from support.rollouts import a_task
from support.real_harbor import job
from runner.evaluation.harbor import run_harbor
run_harbor(job(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], concurrency=1))
"""


def test_a_killed_run_leaves_no_container_and_goes_on_where_it_was(
    two: Two, tmp_path: Path, docker_address: str
) -> None:
    place = tmp_path / "job"
    replies = {name: [command("sleep 25"), DONE] for name in two.tasks}
    first = next(iter(two.tasks))
    replies[first] = [DONE]
    with Loopback(reply=scripts(replies, two.tasks)) as server:
        words = [sys.executable, "-c", KILLED, str(two.folder), str(place), server.url]
        paths = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": paths}, start_new_session=True) as process:
            try:
                until(lambda: len(list(read_lines(place / "ledger.jsonl"))) >= 2, 120)
                assert containers(place, docker_address)
            finally:
                process.send_signal(signal.SIGKILL)
        until(lambda: not containers(place, docker_address), 30)
        time.sleep(1)
        assert not containers(place, docker_address)
        until(lambda: not still_at(place), 30)
        done = list(place.glob(f"harbor/{first}__*/result.json"))
        seen: list[tuple[int, int]] = []
        result = run_harbor(
            job(two.folder, place, server.url), on_trials=lambda trials, missing: seen.append((len(trials), missing))
        )
        assert len(server.calls) == len(replies) + 1, "an answer was paid for twice"
    assert seen == [(1, 1), (2, 0)]
    assert [trial.outcome for trial in result.trials] == [Outcome.FAIL] * 2
    assert [place / trial.job for trial in result.trials if trial.task == first] == done, "it was run again"


def test_a_spent_budget_ends_the_job_which_goes_on_once_it_is_raised(two: Two, tmp_path: Path) -> None:
    place = tmp_path / "job"
    replies = {name: [command("true"), command("true"), DONE] for name in two.tasks}
    with Loopback(reply=scripts(replies, two.tasks)) as server:
        run = job(two.folder, place, server.url)
        with pytest.raises(BudgetExceeded, match=r"all 4 calls of the budget are made .*raise budget\.calls"):
            run_harbor(replace(run, account=account(place, budget=Budget(calls=4))))
        assert len(server.calls) == 4
        result = run_harbor(replace(run, account=account(place, budget=Budget(calls=6))))
        assert len(server.calls) == 6, "an answer was paid for twice"
    assert [(trial.turns, trial.outcome) for trial in result.trials] == [(3, Outcome.FAIL)] * 2
    assert len(list(read_lines(place / "ledger.jsonl"))) == 6


def until(true: Callable[[], object], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def still_at(folder: Path) -> list[str]:
    """Processes that name a folder in their command."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.append(text.decode("utf-8", "replace"))
    return found
