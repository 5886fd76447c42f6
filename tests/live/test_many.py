"""Hundreds of episodes at once on one machine, and a steady run in which none waits for its sandbox."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.domain.episode import Outcome
from runner.domain.task import Environment
from runner.grading.verify import verify
from runner.sandbox.base import Backend, Image, Sandbox
from runner.sandbox.descriptors import raise_limit
from runner.sandbox.docker import DockerBackend
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import owner
from runner.sandbox.local import LocalBackend
from runner.schema import Sandbox as Settings

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]
SECONDS = 600.0
"""Some of hundreds wait for long on two cores."""
AT_ONCE = {"docker": 100, "local": 200}
TEST = "def test_the_note():\n    assert open('/home/user/note').read() == '{}\\n'\n"

Make = Callable[[int, int], Backend]
"""A backend of so many slots, with so many sandboxes started ahead."""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("local", marks=pytest.mark.local),
    ]
)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(kind: str, request: pytest.FixtureRequest, session_cache: Path) -> Make:
    if kind == "local":
        request.getfixturevalue("local_ok")
        settings, made = Settings(backend="local"), LocalBackend
    else:
        settings, made = request.getfixturevalue("docker_settings"), DockerBackend

    def opened(concurrency: int, prestart: int) -> Backend:
        chosen = replace(settings, concurrency=concurrency, prestart=prestart, memory_mb=128)
        raise_limit(chosen)
        return made(chosen, session_cache, "many")

    return opened


@pytest.fixture
def engine(docker_address: str) -> Iterator[Engine]:
    opened = Engine(docker_address)
    yield opened
    opened.close()


def built(backend: Backend) -> Image:
    image = backend.build(Environment(setup="true"), timeout=SECONDS)
    assert isinstance(image, Image)
    return image


def test_hundreds_of_episodes_at_once_are_all_graded_and_leave_nothing(kind: str, make: Make) -> None:
    number = AT_ONCE[kind]
    files, threads = _open_files(), threading.active_count()
    with closing(make(number, 0)) as backend:
        image, together = built(backend), threading.Barrier(number)

        def episode(index: int) -> None:
            with backend.start(image) as sandbox:
                assert sandbox.run(f"echo {index} > note", timeout=SECONDS).exit_code == 0
                together.wait(SECONDS)  # now all of them live
                assert sandbox.run("cat note", timeout=SECONDS).output == f"{index}\n".encode()
                sandbox.run("nohup sleep 600 >/dev/null 2>&1 &", timeout=SECONDS)
                assert verify(sandbox, backend.grader, TEST.format(index), timeout=SECONDS).outcome is Outcome.PASS

        with ThreadPoolExecutor(number) as pool:
            list(pool.map(episode, range(number)))
        if kind == "docker":
            assert _containers(backend) == []
        else:
            assert len(backend._stages) == 0
    assert threading.active_count() <= threads
    assert _open_files() <= files


def _containers(backend: Backend) -> list[Any]:
    """Of this process, in the backend's engine."""
    filters = {"label": f"endless.owner={owner()}"}
    return list(backend._engine.client.api.containers(all=True, filters=filters))


def _open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Turns:
    """Episodes of one slot, in a row: each is told when its time is over."""

    def __init__(self, backend: Backend, image: Image) -> None:
        self._backend, self._image = backend, image
        self.inside = [threading.Event() for _ in range(3)]
        self.over = [threading.Event() for _ in range(3)]

    def episode(self, index: int) -> None:
        with self._backend.start(self._image) as sandbox:
            self._first_command(sandbox, index)
            assert self.over[index].wait(SECONDS)

    def _first_command(self, sandbox: Sandbox, index: int) -> None:
        assert sandbox.run("echo first", timeout=SECONDS).output == b"first\n"
        self.inside[index].set()


def test_in_a_steady_run_the_next_sandbox_is_there_before_the_slot_is_free(kind: str, make: Make) -> None:
    with closing(make(1, 1)) as backend, ThreadPoolExecutor(3) as pool:
        turns = Turns(backend, built(backend))
        episodes = [pool.submit(turns.episode, 0)]
        try:
            for index in range(3):
                assert turns.inside[index].wait(SECONDS)
                if index < 2:
                    episodes.append(pool.submit(turns.episode, index + 1))
                    _await_two(backend, kind)
                    assert not turns.inside[index + 1].is_set(), "there is one slot"
                turns.over[index].set()
        finally:
            for event in turns.over:
                event.set()
        for future in episodes:
            future.result(SECONDS)


def _await_two(backend: Backend, kind: str) -> None:
    """The sandbox in the slot and the next one are both running."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        running = len(_containers(backend)) if kind == "docker" else len(backend._stages)
        if running == 2:
            return
        time.sleep(0.05)
    raise AssertionError("the next sandbox was not started ahead")


@pytest.mark.docker
def test_the_engine_has_done_all_for_the_next_episode_before_the_slot_is_free(
    docker_settings: Settings, session_cache: Path, engine: Engine
) -> None:
    """By the engine's own account: the second episode's container and its shell started before the first one's was even
    stopped, and its first command asked nothing of the engine."""
    began = time.time()
    with (
        closing(DockerBackend(replace(docker_settings, concurrency=1, prestart=1), session_cache, "many")) as backend,
        ThreadPoolExecutor(2) as pool,
    ):
        image = built(backend)
        turns = Turns(backend, image)
        first = pool.submit(turns.episode, 0)
        try:
            assert turns.inside[0].wait(SECONDS)
            second = pool.submit(turns.episode, 1)
            _await_shell(engine, began)
            turns.over[0].set()
            assert turns.inside[1].wait(SECONDS)
            asked = _events(engine, began)
        finally:
            for event in turns.over:
                event.set()
        first.result(SECONDS)
        second.result(SECONDS)
    mine = list(dict.fromkeys(container for container, action in asked if action == "start"))[-2:]
    slot_free = next((at for at, event in enumerate(asked) if event == (mine[0], "kill")), len(asked))
    ready = max(at for at, (container, action) in enumerate(asked) if container == mine[1])
    assert asked[ready] == (mine[1], "exec_start")
    assert ready < slot_free


def _await_shell(engine: Engine, since: float) -> None:
    """Both episodes' shells have started."""
    deadline = time.monotonic() + SECONDS
    while sum(action == "exec_start" for _, action in _events(engine, since)) < 2:
        assert time.monotonic() < deadline, "the next episode's shell was not opened ahead"
        time.sleep(0.05)


def _events(engine: Engine, since: float) -> list[tuple[str, str]]:
    """(container, what happened to it), in order, for the containers of this process."""
    filters = {"type": "container", "label": f"endless.owner={owner()}"}
    found = engine.client.api.events(since=since, until=time.time(), filters=filters, decode=True)
    return [(event["Actor"]["ID"], event["Action"].partition(":")[0]) for event in found]
