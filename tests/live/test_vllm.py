"""`provider: vllm` with the real vLLM and a random model: started, awaited, asked by many threads, never left."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import psutil
import pytest
from support.accounts import account
from support.agreeable import ENVIRONMENT, WORDS
from support.endless import Workplace
from support.models import ask
from support.real_vllm import HOW_TO_GET_IT, RealVllm, alive, descendants, find_command, make_model

from runner.domain.errors import RecipeError
from runner.llm.base import Client, Finish
from runner.llm.factory import Clients
from runner.llm.server import VllmServer

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

CONTEXT = 512


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> RealVllm:
    command = find_command()
    if command is None:
        (pytest.fail if os.environ.get("ENDLESS_VLLM") else pytest.skip)(HOW_TO_GET_IT)
    return RealVllm(command, make_model(command, tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def room(vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A run's clients. When they are closed, none of the processes that came with them is left."""
    folder = tmp_path_factory.mktemp("run")
    before = descendants(_us())
    with Clients(account(folder)) as clients:
        yield clients
        mine = descendants(_us()) - before
        assert len(mine) >= 3, "the lifeline, the server and its engine"
    assert alive(mine) == []


@pytest.fixture(scope="module")
def client(room: Clients, vllm: RealVllm) -> Client:
    return room.open(vllm.settings(context=CONTEXT), "generator")


def test_many_threads_get_answers_with_usage_figures_and_within_their_caps(client: Client) -> None:
    caps = [1, 5, 16, 40]
    requests = [ask(f"solve/a/{i}/0", str(i), max_tokens=caps[i % 4], temperature=1.0) for i in range(16)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client.complete, requests))
    for request, answer in zip(requests, answers, strict=True):
        assert 0 < answer.usage.output_tokens <= request.max_tokens
        assert 10 < answer.usage.input_tokens < 100
        cut = answer.usage.output_tokens == request.max_tokens
        assert answer.finish in ((Finish.LENGTH, Finish.STOP) if cut else (Finish.STOP,))
    assert sum(answer.finish is Finish.LENGTH for answer in answers) > 4
    assert len({answer.text for answer in answers}) > 8
    assert max(answer.seconds for answer in answers) < 120


def test_a_conversation_over_the_context_window_is_data(client: Client) -> None:
    over = client.complete(ask("solve/b/0/0", "hi " * 5000))
    assert (over.text, over.finish, over.usage.output_tokens) == ("", Finish.CONTEXT, 0)


def test_a_reply_takes_the_room_that_is_left_where_that_is_less_than_its_cap(client: Client) -> None:
    answer = client.complete(ask("solve/c/0/0", "hi", max_tokens=CONTEXT - 1, temperature=0.0))
    assert answer.finish is not Finish.CONTEXT
    assert answer.usage.input_tokens + answer.usage.output_tokens <= CONTEXT


def test_a_cap_over_the_context_window_is_a_mistake_of_the_recipe(client: Client) -> None:
    with pytest.raises(RecipeError, match=r"max_tokens=9999 .*; lower generate\.max_tokens or agent\.turn_tokens"):
        client.complete(ask("solve/d/1/0", max_tokens=9999))


def test_a_parameter_that_the_server_refuses_is_a_mistake_of_the_recipe(client: Client) -> None:
    with pytest.raises(RecipeError, match=r"models\.generator.*temperature"):
        client.complete(ask("solve/d/0/0", temperature=-1.0))


def test_a_second_role_with_an_equal_model_shares_the_server(room: Clients, client: Client, vllm: RealVllm) -> None:
    client.complete(ask("solve/e/0/0", max_tokens=1))
    servers = descendants(_us())
    solver = room.open(vllm.settings(context=CONTEXT), "solver")
    assert solver.complete(ask("solve/e/1/0", max_tokens=1)).usage.output_tokens == 1
    assert descendants(_us()) == servers


def test_a_model_that_does_not_exist_is_one_error_with_the_reason_from_the_log(vllm: RealVllm, tmp_path: Path) -> None:
    before = descendants(_us())
    nowhere = str(tmp_path / "no-model")
    with VllmServer(vllm.settings(context=CONTEXT, name=nowhere), tmp_path / "log", role="solver") as server:
        for _ in range(2):
            with pytest.raises(RecipeError, match="ended with exit code 1 before it answered") as caught:
                server.address()
    message = str(caught.value)
    assert "check models.solver.name" in message
    assert f"the last lines of {tmp_path / 'log'}" in message
    assert "Repo id must be in the form" in message
    assert nowhere in message
    assert 'File "' not in message
    assert alive(descendants(_us()) - before) == []


def test_kill_9_of_the_runner_leaves_no_process(vllm: RealVllm, tmp_path: Path) -> None:
    owner = Path(__file__).parents[1] / "support" / "lifeline_owner.py"
    settings = json.dumps(asdict(vllm.settings(context=CONTEXT).vllm))
    command = [sys.executable, str(owner), str(tmp_path / "log"), vllm.model, settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        family = descendants(process.pid)
        assert len(family) >= 3
        process.kill()
    end = time.monotonic() + 30
    while alive(family) and time.monotonic() < end:
        time.sleep(0.1)
    assert alive(family) == []


def test_the_quickstart_on_a_model_that_only_babbles_ends_well_and_leaves_no_process(
    vllm: RealVllm, tmp_path: Path
) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT)
    words = [*vllm.words(context=8192), "generate.draws=3", "generate.max_tokens=256"]
    process = place.start("run", "quickstart", *place.sandbox, *words)
    family: set[psutil.Process] = set()
    while process.poll() is None:
        family |= descendants(process.pid)
        time.sleep(0.2)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert alive(family) == []
    assert "models.generator: vLLM answers after" in " ".join(printed.split())
    (log,) = (place.folder / "outputs" / "runs").glob("*/vllm-generator.log")
    assert "--max-model-len" in log.read_text("utf-8", "replace").splitlines()[0], "how it was started"
    reasons = {reason for reason, _, _ in place.results().draws().values()}
    assert reasons <= {"unparsable", "truncated"}
    assert len(place.journal()) == 9, "three rounds a draw"
    assert "No draw became a task, so there is nothing to train on." in printed
    assert place.results().split()["train"] == []


def _us() -> int:
    return psutil.Process().pid
