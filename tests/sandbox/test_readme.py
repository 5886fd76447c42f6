"""sandboxes/README.md keeps its word: the tests that it names are there, and its example of a backend works."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from runner.agent.harness import PROMPTS, Harness
from runner.agent.loop import Call
from runner.domain.episode import Episode, Outcome
from runner.domain.task import Environment, Task
from runner.llm.base import Completion, Finish, Request, Usage
from runner.prompts import PromptSet
from runner.rollout.attempt import attempt
from runner.sandbox.base import Backend, BuildFailure
from runner.sandbox.registry import open_backend
from runner.schema import Agent, Sandbox

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "sandboxes" / "README.md").read_text(encoding="utf-8")
TASK = Task(
    id="plus",
    instruction="Write 42 to /home/user/answer.txt.",
    environment=Environment(setup="echo 41 >/home/user/question.txt"),
    final_test="def test_answer():\n    assert open('/home/user/answer.txt').read() == '42\\n'\n",
)


def test_every_test_that_it_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


@pytest.fixture
def example(
    tmp_path: Path, session_cache: Path, docker_settings: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    """The example as its reader would use it."""
    if shutil.which("docker") is None:
        pytest.skip("there is no program with docker's command line")
    (code,) = re.findall(r"```python\n(# cli_backend\.py.*?)```", PAGE, re.DOTALL)
    (tmp_path / "cli_backend.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", str(docker_settings.address))
    settings = Sandbox(backend="cli_backend:CliBackend", base_image=docker_settings.base_image)
    before = images()
    with closing(open_backend(settings, cache=session_cache, run_label="readme")) as backend:
        yield backend
    for image in images() - before:
        subprocess.run(["docker", "rmi", "--force", image], check=True, capture_output=True)


def images() -> set[str]:
    """What the example has built on this engine."""
    return set(subprocess.check_output(["docker", "images", "--quiet", "cli-backend"], text=True).split())


class Says:
    """A model that gives these replies in turn."""

    def __init__(self, replies: Sequence[str]) -> None:
        self._replies = iter(replies)

    def complete(self, request: Request) -> Completion:
        usage = Usage(input_tokens=10, output_tokens=10)
        return Completion(text=next(self._replies), usage=usage, finish=Finish.STOP)


def play(backend: Backend, *commands: str) -> Episode:
    replies = [*(f"<command>{command}</command>" for command in commands), "<action>done</action>"]
    harness = Harness(Agent(), TASK.instruction, PromptSet.open(PROMPTS, "default"))
    call = Call(slot="solve/plus/0", scope="", temperature=None)
    return attempt(TASK, 0, harness, Says(replies), call, backend).episode


@pytest.mark.docker
@pytest.mark.live
def test_the_example_of_a_backend_plays_and_grades_episodes(example: Backend) -> None:
    right = play(example, "n=$(cat question.txt); cd /tmp", "id -u; pwd", "sleep 99 &", "echo $((n + 1)) >~/answer.txt")
    assert right.outcome is Outcome.PASS, right.verdict
    assert "1000\n/tmp" in right.turns[1].observation
    wrong = play(example, "echo 43 >answer.txt", "exit 3", "(sleep 99; echo 42 >answer.txt) &")
    assert (wrong.outcome, wrong.turns[1].exit_code) == (Outcome.FAIL, 3)
    failed = example.build(Environment(setup="echo no; exit 3"), timeout=60)
    assert isinstance(failed, BuildFailure)
    assert "no\n" in failed.log
    listing = ["docker", "ps", "--all", "--quiet", "--filter", "label=cli-backend=readme"]
    assert subprocess.check_output(listing) == b"", "nothing is left"
