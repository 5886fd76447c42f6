"""A daemon that dies, or restarts, under a sandbox or a build: whatever comes of it, it is nobody's failure."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from requests.exceptions import RequestException
from support.daemon import SLOW, Daemon
from support.leftovers import left_at
from support.processes import until

from runner.domain.errors import EngineError, EngineGone
from runner.domain.task import Environment
from runner.grading.verify import verify
from runner.sandbox.base import BuildFailure, Image
from runner.sandbox.docker import DockerBackend, containers, removal
from runner.sandbox.docker.engine import LOOK_SECONDS
from runner.schema import Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.live, pytest.mark.timeout(300)]

RIGHT = "from pathlib import Path\ndef test_it():\n    assert Path('/home/user/answer').read_text() == '42\\n'\n"


@pytest.fixture
def backend(daemon: Daemon, docker_settings: Sandbox, session_cache: Path) -> Iterator[DockerBackend]:
    backend = DockerBackend(replace(docker_settings, address=daemon.address), session_cache, "gone")
    yield backend
    backend.close()
    assert left_at(daemon) == []


@pytest.fixture
def image(backend: DockerBackend) -> Image:
    built = backend.build(Environment(setup="true"), timeout=120)
    assert isinstance(built, Image)
    return built


def restart(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start()


@contextmanager
def soon(action: Callable[[], None]) -> Iterator[None]:
    """Do it while the body is at work."""
    timer = threading.Timer(1.5, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_a_command_that_was_running_is_an_error_of_an_engine_that_is_gone(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    with backend.start(image) as sandbox:
        with soon(daemon.kill), pytest.raises(EngineGone, match="Is the daemon running") as caught:
            sandbox.run("sleep 60", timeout=120)
        assert not caught.value.answers()
        daemon.start()
        time.sleep(2 * LOOK_SECONDS)  # a "no" serves everybody for a moment
        assert caught.value.answers()


def test_a_shell_that_a_restart_ended_between_two_commands_is_not_opened_again(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    with backend.start(image) as sandbox:
        sandbox.run("important=1; sleep 600 &", timeout=10)
        restart(daemon)
        with pytest.raises(EngineError):
            sandbox.run("echo $important", timeout=10)


def test_files_outlive_a_restart_and_are_graded(backend: DockerBackend, image: Image, daemon: Daemon) -> None:
    with backend.start(image) as sandbox:
        sandbox.run("echo 42 >answer", timeout=10)
        restart(daemon)
        assert verify(sandbox, backend.grader, RIGHT, timeout=30).reason == "passed"


def test_a_test_that_was_running_is_no_failed_one(backend: DockerBackend, image: Image, daemon: Daemon) -> None:
    with backend.start(image) as sandbox, soon(lambda: restart(daemon)), pytest.raises(EngineError):
        verify(sandbox, backend.grader, "import time\ndef test_it():\n    time.sleep(30)\n", timeout=60)


def test_services_that_a_restart_ended_are_not_missed_by_the_tests(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    with backend.start(image) as sandbox:
        sandbox.run("python3 -m http.server 8000 >/dev/null 2>&1 &", timeout=10)
        restart(daemon)
        with pytest.raises(EngineError, match="stopped from outside"):
            sandbox.quiesce(keep_ports=[8000])


def test_a_setup_script_that_was_running_did_not_fail(backend: DockerBackend, daemon: Daemon) -> None:
    slow = Environment(setup="sleep 4; echo built >/srv/mark")
    with soon(lambda: restart(daemon)), pytest.raises(EngineError):
        backend.build(slow, timeout=60)
    assert isinstance(backend.build(slow, timeout=60), Image)


def test_a_setup_script_that_ends_its_container_itself_has_failed(backend: DockerBackend) -> None:
    suicidal = Environment(setup="kill 1; sleep 60")
    with pytest.raises(EngineError, match="stopped from outside in mid-build"):
        backend.build(suicidal, timeout=60)
    assert isinstance(backend.build(suicidal, timeout=60), BuildFailure)


def test_a_dockerfile_that_was_being_built_did_not_fail(
    backend: DockerBackend, daemon: Daemon, tmp_path: Path, docker_settings: Sandbox
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {docker_settings.base_image}\nRUN sleep 5\n")
    with soon(lambda: restart(daemon)), pytest.raises(EngineError):
        backend.build(Environment(context=tmp_path), timeout=60)
    assert isinstance(backend.build(Environment(context=tmp_path), timeout=60), Image)
    time.sleep(5)  # BuildKit leaves what it ran to itself


def test_a_container_that_could_not_be_removed_goes_when_the_next_one_comes(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    with backend.start(image):
        daemon.kill()
    daemon.start()
    listed = backend._engine.client.containers.list
    (left,) = listed(all=True)
    with backend.start(image):
        assert left.id not in [container.id for container in listed(all=True)]


def test_a_restart_takes_one_signal(backend: DockerBackend, image: Image, daemon: Daemon) -> None:
    def forced() -> int:
        return daemon.log(last=1 << 30).count("using the force")

    before = forced()
    with backend.start(image) as sandbox:
        for _ in range(3):
            sandbox.run("sleep 60 &", timeout=10)
            sandbox.quiesce()
    assert forced() == before, "Docker will look again, and take the container for one that has ended"


def test_a_container_that_is_taken_for_an_ended_one_goes_with_its_processes(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    engine = backend._engine
    with containers.created(engine, image.reference, "gone", entrypoint=["sleep"], command=["600"]) as container:
        container.start()
        daemon.invent_end(str(container.id))
        assert until(lambda: not engine.client.api.inspect_container(container.id)["State"]["Running"], 10)
        assert daemon.processes()
        removal.remove_left(engine, str(container.id))
    assert left_at(daemon) == []


def test_a_container_of_which_nothing_runs_is_removed_without_another_start(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    engine = backend._engine
    began = int(time.time())
    with containers.created(engine, image.reference, "gone", network_mode="none") as container:
        removal.remove_left(engine, str(container.id))
    seen = engine.client.events(
        since=began, until=int(time.time()) + 1, filters={"container": container.id}, decode=True
    )
    assert [event["Action"] for event in seen if event["Type"] == "container"] == ["create", "destroy"]


def test_what_a_daemon_was_creating_when_it_died_is_out_of_reach(
    backend: DockerBackend, image: Image, daemon: Daemon
) -> None:
    """Docker's own defect, which sandboxes/README.md names. Copying a folder to a volume makes it slow enough here."""
    api = backend._engine.client.api

    def file_systems() -> list[str]:
        return [point for point in daemon.mounted() if point.endswith("/merged")]

    with ThreadPoolExecutor(1) as pool:
        creating = pool.submit(api.create_container, image.reference, volumes=["/usr"])
        assert until(file_systems, 10)
        daemon.kill()
    assert isinstance(creating.exception(), RequestException)
    daemon.start()
    assert api.containers(all=True) == []
    assert file_systems(), "Docker itself has learned to clean up"
    assert daemon.mounts() == []
    for volume in api.volumes(filters={"label": "com.docker.volume.anonymous"})["Volumes"]:
        api.remove_volume(volume["Name"])


@pytest.mark.parametrize("runtime", SLOW)
def test_what_a_daemon_was_starting_when_it_died_is_found_and_ended(
    backend: DockerBackend, image: Image, daemon: Daemon, runtime: str
) -> None:
    engine = backend._engine

    def be_away() -> None:
        daemon.kill()
        time.sleep(4)
        assert "runc init" in " ".join(daemon.processes()), "Docker itself has learned to clean up"
        daemon.start()

    def start() -> None:
        with (
            containers.created(engine, image.reference, "gone", network_mode="none", runtime=runtime) as container,
            engine.trouble("start a container"),
        ):
            container.start()

    with soon(be_away), pytest.raises(EngineError):
        start()
    with backend.start(image):
        pass
    assert left_at(daemon) == []
