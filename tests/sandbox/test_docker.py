"""Sandboxes in real containers: building, starting, grading's needs, and what is left afterwards."""

import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.cable import cable

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.sandbox.base import BuildFailure, Image, Role
from runner.sandbox.docker import DockerBackend
from runner.sandbox.docker.containers import owner, remove_own
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.sandbox import DockerSandbox
from runner.sandbox.runtime import python_argv
from runner.schema import Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.live]
ABANDON = Path(__file__).parents[1] / "support" / "abandon.py"


@pytest.fixture(scope="module")
def engine(docker_address: str) -> Iterator[Engine]:
    opened = Engine(docker_address)
    yield opened
    opened.close()


@pytest.fixture
def sandbox(docker_backend: DockerBackend, plain_image: Image) -> Iterator[DockerSandbox]:
    with docker_backend.start(plain_image) as started:
        yield started


def built(backend: DockerBackend, environment: Environment, timeout: float = 120) -> Image:
    image = backend.build(environment, timeout=timeout)
    assert isinstance(image, Image), image
    return image


def failed(backend: DockerBackend, environment: Environment, timeout: float = 120) -> BuildFailure:
    failure = backend.build(environment, timeout=timeout)
    assert isinstance(failure, BuildFailure), failure
    return failure


def mine(engine: Engine) -> list[str]:
    """Containers of this process."""
    return [c.id for c in engine.client.containers.list(all=True, filters={"label": f"endless.owner={owner()}"})]


# Building


def test_a_setup_script_runs_as_root_and_leaves_its_home_files_to_the_agent(docker_backend: DockerBackend) -> None:
    script = "id -u > /srv/who; pwd >> /srv/who; mkdir /home/user/d; echo x > /home/user/d/f; chmod 600 /home/user/d/f"
    with docker_backend.start(built(docker_backend, Environment(setup=script))) as sandbox:
        result = sandbox.run(
            "cat /srv/who; stat -c '%U %a' d/f; echo y >> d/f; cat d/f; ls -A / | grep endless", timeout=10
        )
    assert result.output.decode() == "0\n/\nuser 600\nx\ny\n"


def test_a_built_environment_is_found_again(docker_backend: DockerBackend) -> None:
    environment = Environment(setup="date +%s%N > /srv/when")
    assert built(docker_backend, environment) == built(docker_backend, environment)


def test_a_failing_script_is_the_environments_fault_and_its_log_comes_back(docker_backend: DockerBackend) -> None:
    failure = failed(docker_backend, Environment(setup="set -e\necho one\nls /nonexistent\necho two"))
    assert "one" in failure.log
    assert "/nonexistent" in failure.log
    assert "exit code 2" in failure.log
    assert "two" not in failure.log


def test_a_slow_script_is_stopped(docker_backend: DockerBackend, engine: Engine) -> None:
    failure = failed(docker_backend, Environment(setup="echo begun; sleep 60"), timeout=1)
    assert (failure.timed_out, failure.log) == (True, "begun\n")
    assert mine(engine) == []


def test_background_processes_of_a_build_do_not_hold_it_up(docker_backend: DockerBackend) -> None:
    built(docker_backend, Environment(setup="sleep 600 & echo done"), timeout=20)


def test_a_script_that_wants_a_network_is_infrastructure_only_where_there_is_one(
    docker_settings: Sandbox, session_cache: Path
) -> None:
    wants = Environment(setup="curl -sS http://nosuch.invalid/")
    backend = DockerBackend(replace(docker_settings, build_network="none"), session_cache, "tests")
    assert "Could not resolve host" in failed(backend, wants).log
    backend.close()
    backend = DockerBackend(docker_settings, session_cache, "tests")
    with pytest.raises(EngineError, match="Could not resolve host"):
        backend.build(wants, timeout=30)
    backend.close()


def test_build_variables_reach_the_script_and_not_the_image(
    docker_settings: Sandbox, session_cache: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENDLESS_SECRET_INDEX", "s3cret-value")
    backend = DockerBackend(replace(docker_settings, build_env=["ENDLESS_SECRET_INDEX"]), session_cache, "tests")
    image = built(backend, Environment(setup="echo ${#ENDLESS_SECRET_INDEX} > /srv/length"))
    found = engine.client.images.get(image.reference)
    assert "s3cret" not in str(found.attrs) + str(found.history())
    with backend.start(image) as sandbox:
        assert sandbox.run("cat /srv/length; env | grep s3cret", timeout=5).output == b"12\n"
    backend.close()


def test_a_service_survives_until_the_agent_is_done(docker_backend: DockerBackend) -> None:
    start = "cd /tmp; nohup sleep 300 & echo $! > /tmp/pid; echo started"
    with docker_backend.start(built(docker_backend, Environment(start=start))) as sandbox:
        assert sandbox.run("ps -o args= -p $(cat /tmp/pid)", timeout=5).output == b"sleep 300\n"
        sandbox.quiesce()
        listing = sandbox.exec(["ps", "-eo", "args"], role=Role.ROOT, timeout=10).output
    assert b"sleep 300\n" not in listing


def test_a_failing_start_script_is_a_build_failure(docker_backend: DockerBackend) -> None:
    failure = failed(docker_backend, Environment(start="echo oops >&2; exit 3"))
    assert "oops" in failure.log
    assert "exit code 3" in failure.log


def test_an_imported_context_is_built_without_what_is_hidden(docker_backend: DockerBackend, tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text('{"truth": "secret"}')
    (tmp_path / "test_initial_state.py").write_text("secret")
    (tmp_path / "test_wanted.py").write_text("wanted")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test_x.py").write_text("data")
    base = docker_backend._config.base_image
    heredoc = "RUN <<'EOF' cat > /srv/heredoc\nline\nEOF\n"
    text = f"FROM {base}\n{heredoc}COPY . /srv/all\nCOPY test_wanted.py /srv/\nRUN mkdir -p /work\nWORKDIR /work\n"
    (tmp_path / "Dockerfile").write_text(text)
    with docker_backend.start(built(docker_backend, Environment(context=tmp_path), timeout=300)) as sandbox:
        assert sandbox.run("pwd; id -u; cd /srv; cat heredoc; find all -type f | sort", timeout=10).output.decode() == (
            "/work\n1000\nline\nall/Dockerfile\nall/data/test_x.py\nall/test_wanted.py\n"
        )


def test_an_imported_dockerfile_that_fails_is_the_tasks_fault(docker_backend: DockerBackend, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {docker_backend._config.base_image}\nRUN echo no && exit 9\n")
    assert re.search(r"exit (code: |status )9", failed(docker_backend, Environment(context=tmp_path)).log)
    (tmp_path / "Dockerfile").write_text("FORM nothing\n")
    assert "FORM" in failed(docker_backend, Environment(context=tmp_path)).log


# Running


def test_the_agent_is_an_ordinary_user_without_a_network(sandbox: DockerSandbox) -> None:
    result = sandbox.run("id -u; pwd; echo $HOME $USER; grep -E 'CapEff|NoNewPrivs' /proc/self/status", timeout=5)
    assert result.output.decode().split() == [
        *("1000", "/home/user", "/home/user", "user", "CapEff:", "0000000000000000", "NoNewPrivs:", "1")
    ]
    assert sandbox.run("ls /sys/class/net; touch /etc/x", timeout=5).output.startswith(b"lo\ntouch:")


def test_the_graders_files_are_read_only_and_work(docker_backend: DockerBackend, sandbox: DockerSandbox) -> None:
    mount = docker_backend.grader
    assert sandbox.run(f"echo x > {mount}/site/x; echo x > /etc/ld.so.preload", timeout=5).exit_code != 0
    program = "import os, sys; print(os.getuid(), os.environ.get('PIP_CERT', ''), len(sys.stdin.read()))"
    result = sandbox.exec([*python_argv(mount), "-c", program], role=Role.ROOT, timeout=20, stdin=b"x" * 300_000)
    assert (result.output, result.exit_code) == (b"0  300000\n", 0)


def test_quiescing_ends_every_process_and_keeps_the_files(sandbox: DockerSandbox) -> None:
    sandbox.run("echo kept > f; setsid nohup sleep 300 >/dev/null 2>&1 & (sleep 300 &)", timeout=5)
    sandbox.quiesce()
    listing = sandbox.exec(["ps", "-eo", "user,args"], role=Role.ROOT, timeout=10).output.decode()
    assert "sleep 300" not in listing
    assert sandbox.exec(["cat", "/home/user/f"], role=Role.AGENT, timeout=10).output == b"kept\n"


def test_an_untouched_sandbox_is_not_restarted(sandbox: DockerSandbox) -> None:
    before = sandbox.exec(["ps", "-o", "lstart=", "-p", "1"], role=Role.ROOT, timeout=10).output
    sandbox.quiesce()
    assert sandbox.exec(["ps", "-o", "lstart=", "-p", "1"], role=Role.ROOT, timeout=10).output == before


def test_exec_reports_codes_folders_and_users(sandbox: DockerSandbox) -> None:
    assert sandbox.exec(["false"], role=Role.ROOT, timeout=5).exit_code == 1
    assert sandbox.exec(["pwd"], role=Role.ROOT, timeout=5, cwd="/srv").output == b"/srv\n"
    assert sandbox.exec(["id", "-u"], role=Role.AGENT, timeout=5).output == b"1000\n"
    assert sandbox.exec(["cat"], role=Role.AGENT, timeout=5, stdin=b"a\0b").output == b"a\0b"


def test_exec_stops_what_takes_too_long_or_says_too_much(sandbox: DockerSandbox) -> None:
    slow = sandbox.exec(["sleep", "300"], role=Role.ROOT, timeout=1)
    assert (slow.timed_out, slow.exit_code) == (True, None)
    flood = sandbox.exec(["yes"], role=Role.ROOT, timeout=20)
    assert (flood.truncated, flood.exit_code, len(flood.output)) == (True, None, 200_000)
    listing = sandbox.exec(["ps", "-eo", "args"], role=Role.ROOT, timeout=10).output.decode()
    assert "sleep 300\n" not in listing
    assert "yes\n" not in listing


def test_a_missing_program_is_an_engine_error(sandbox: DockerSandbox) -> None:
    with pytest.raises(EngineError, match="nosuchprogram"):
        sandbox.exec(["nosuchprogram"], role=Role.ROOT, timeout=5)


def test_a_memory_hog_is_killed_and_the_sandbox_lives(sandbox: DockerSandbox) -> None:
    result = sandbox.run("python3 -c 'x = bytearray(3 << 30)'; echo code $?", timeout=60)
    assert b"code 137" in result.output or b"MemoryError" in result.output
    assert sandbox.run("echo alive", timeout=5).output == b"alive\n"


def test_a_fork_bomb_stays_inside_and_grading_goes_on(sandbox: DockerSandbox) -> None:
    sandbox.run("b() { b | b & }; b; sleep 1", timeout=5)
    sandbox.quiesce()
    assert sandbox.exec(["echo", "graded"], role=Role.ROOT, timeout=10).output == b"graded\n"
    assert sandbox.run("echo alive", timeout=10).output == b"alive\n"


def test_many_sandboxes_at_once_do_not_disturb_each_other(docker_backend: DockerBackend, plain_image: Image) -> None:
    said: dict[int, bytes] = {}

    def work(number: int) -> None:
        with docker_backend.start(plain_image) as sandbox:
            sandbox.run(f"echo {number} > f", timeout=20)
            said[number] = sandbox.run("cat f", timeout=20).output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: f"{number}\n".encode() for number in range(6)}


# What is left


def test_a_sandbox_leaves_nothing_even_when_its_user_fails(
    docker_backend: DockerBackend, plain_image: Image, engine: Engine
) -> None:
    def fail() -> None:
        with docker_backend.start(plain_image) as sandbox:
            sandbox.run("sleep 300 &", timeout=5)
            assert len(mine(engine)) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert mine(engine) == []


def test_close_removes_this_processes_containers(
    docker_settings: Sandbox, session_cache: Path, plain_image: Image, engine: Engine
) -> None:
    backend = DockerBackend(docker_settings, session_cache, "tests")
    with backend.start(plain_image):
        backend.close()
        assert mine(engine) == []
    backend.close()


def test_a_killed_runs_containers_are_reaped_and_others_are_not(
    docker_backend: DockerBackend, plain_image: Image, engine: Engine, docker_address: str, session_cache: Path
) -> None:
    argv = [sys.executable, str(ABANDON), docker_address, str(session_cache), plain_image.reference]
    foreign = engine.client.containers.create(plain_image.reference, ["true"], network_mode="none")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": "."}) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        marked = {"label": "endless.run=abandoned"}
        assert docker_backend.reap() == 0
        child.kill()
    try:
        assert docker_backend.reap() == 1
        assert engine.client.containers.list(all=True, filters=marked) == []
        assert engine.client.containers.get(str(foreign.id)).status == "created"
    finally:
        foreign.remove(v=True)


def test_an_image_can_be_forgotten_twice(docker_backend: DockerBackend, engine: Engine) -> None:
    image = built(docker_backend, Environment(setup="echo forget-me > /srv/x"))
    docker_backend.remove_image(image)
    docker_backend.remove_image(image)
    assert not engine.client.images.list(name=image.reference)


# When the engine is gone


def test_a_dead_engine_is_an_engine_error_with_a_remedy(tmp_path: Path) -> None:
    backend = DockerBackend(Sandbox(address=f"unix://{tmp_path}/no.sock"), tmp_path, "tests")
    with pytest.raises(EngineError, match="endless doctor"):
        backend.build(Environment(setup="true"), timeout=5)
    with pytest.raises(EngineError, match="Is the daemon running"):
        backend.reap()
    found = backend.probe()
    assert not found.ok
    assert "no.sock" in found.detail
    assert found.remedy


# The SDK does not close a Unix socket that it failed to connect.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", ["run", "exec", "quiesce"])
def test_an_engine_that_goes_away_in_the_middle_is_an_engine_error(
    call: str, docker_settings: Sandbox, session_cache: Path, plain_image: Image, tmp_path: Path, engine: Engine
) -> None:
    if not engine.address.startswith("unix://"):
        pytest.skip("the engine is not behind a Unix socket")
    with cable(tmp_path / "engine.sock", engine.address.removeprefix("unix://")) as laid:
        settings = replace(docker_settings, address=f"unix://{tmp_path}/engine.sock")
        backend = DockerBackend(settings, session_cache, "cut")
        with backend.start(plain_image) as sandbox:
            sandbox.run("true", timeout=10)
            threading.Timer(1.0, laid.cut).start()
            with pytest.raises(EngineError, match="endless doctor"):
                _work_until_it_breaks(sandbox, call)
        backend.close()
    del backend, sandbox
    gc.collect()
    deadline = time.monotonic() + 20
    while mine(engine) and time.monotonic() < deadline:  # a restart may still be under way
        remove_own(engine)
        time.sleep(0.2)
    assert mine(engine) == []


def _work_until_it_breaks(sandbox: DockerSandbox, call: str) -> None:
    for _ in range(100):
        if call == "run":
            sandbox.run("sleep 5", timeout=10)
        elif call == "exec":
            sandbox.exec(["sleep", "5"], role=Role.ROOT, timeout=10)
        else:
            sandbox.run("true", timeout=10)
            sandbox.quiesce()
