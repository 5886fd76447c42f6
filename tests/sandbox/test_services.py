"""Services and their health check, the same on every backend."""

from dataclasses import replace

import pytest

from runner.domain.errors import EngineError
from runner.domain.task import Environment, HealthCheck
from runner.sandbox.base import Backend, BuildFailure, Image

SLOW = "(sleep 1; echo up >ready) &"
READY = HealthCheck(command="test -e ~/ready", interval_seconds=0.1)


@pytest.fixture(
    params=[
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.live]),
        pytest.param("apptainer", marks=[pytest.mark.apptainer, pytest.mark.live]),
        pytest.param("local", marks=[pytest.mark.local, pytest.mark.live]),
    ]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    found: Backend = request.getfixturevalue(f"{request.param}_backend")
    return found


def built(backend: Backend, environment: Environment) -> Image:
    image = backend.build(environment, timeout=120)
    assert isinstance(image, Image), image
    return image


def failed(backend: Backend, health: HealthCheck, start: str = "") -> BuildFailure:
    failure = backend.build(Environment(setup="true", start=start, health=health), timeout=120)
    assert isinstance(failure, BuildFailure), failure
    return failure


def test_the_agent_begins_when_the_health_check_succeeds(backend: Backend) -> None:
    image = built(backend, Environment(setup="true", start=SLOW, health=READY))
    for _ in range(2):
        with backend.start(image) as sandbox:
            assert sandbox.run("cat ready", timeout=10).output == b"up\n"


def test_the_health_check_leaves_no_trace_in_the_agents_shell(backend: Backend) -> None:
    command = "set -e; cd /tmp; traced=1; exit() { echo no; }; trap 'echo bye' EXIT; [ $UID = 1000 ] && true"
    image = built(backend, Environment(setup="true", health=HealthCheck(command=command)))
    with backend.start(image) as sandbox:
        said = sandbox.run("echo $? ${traced-none} $PWD $-; trap -p; type -t exit; jobs", timeout=10)
    assert said.output.split()[:3] == [b"0", b"none", b"/home/user"]
    assert b"bye" not in said.output
    assert b"builtin" in said.output
    assert not said.restarted


def test_who_stays_ill_does_not_build_and_the_log_says_what_the_last_try_printed(backend: Backend) -> None:
    health = HealthCheck(command="echo try >>tries; wc -l <tries; exit 7", interval_seconds=0.0, retries=3)
    for _ in range(2):
        failure = failed(backend, health)
        assert failure.log.startswith("3\nthe health check, tried 3 times in ")
        assert "ended with exit code 7: echo try" in failure.log
        assert not failure.timed_out


def test_a_try_that_takes_too_long_has_failed(backend: Backend) -> None:
    failure = failed(backend, HealthCheck(command="echo began; sleep 99", timeout_seconds=0.5, retries=1))
    assert failure.timed_out
    assert failure.log.startswith("began\n")
    assert "took longer than 0.5 s" in failure.log


def test_failures_do_not_count_in_the_start_period(backend: Backend) -> None:
    slow = replace(READY, retries=1, start_period_seconds=60.0, start_interval_seconds=0.1)
    built(backend, Environment(setup="true", start=SLOW, health=slow))
    assert "tried 1 times" in failed(backend, replace(slow, start_period_seconds=0.0), SLOW).log


def test_a_service_that_was_healthy_when_it_was_built_and_is_not_now_is_trouble(backend: Backend) -> None:
    image = built(backend, Environment(setup="true"))
    ill = replace(image.environment, health=HealthCheck(command="echo ill; exit 1", retries=1))
    with pytest.raises(EngineError, match="but not now: ill"), backend.start(replace(image, environment=ill)):
        pass


def test_a_health_check_that_is_no_command_is_said_to_be_none(backend: Backend) -> None:
    assert "NUL byte" in failed(backend, HealthCheck(command="a\0b", interval_seconds=0.0, retries=1)).log
    assert "ended with exit code 2" in failed(backend, HealthCheck(command=")", interval_seconds=0.0, retries=1)).log
