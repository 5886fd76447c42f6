"""Sandboxes in real containers: building, starting, grading's needs, and what is left afterwards."""

import gc
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.abandon import abandoned
from support.cable import cable
from support.processes import new_mark

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.sandbox.base import BuildFailure, Image, Role
from runner.sandbox.docker import DockerBackend
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import owner
from runner.sandbox.docker.removal import remove_own
from runner.sandbox.docker.sandbox import DockerSandbox
from runner.sandbox.runtime import python_argv
from runner.schema import Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.live]


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


def test_the_graders_files_are_read_only_and_work(docker_backend: DockerBackend, sandbox: DockerSandbox) -> None:
    mount = docker_backend.grader
    assert sandbox.run(f"echo x > {mount}/site/x", timeout=5).exit_code != 0
    preloaded = sandbox.run("cd /etc; rm -f ld.so.preload; echo x > ld.so.preload; cat ld.so.preload", timeout=5)
    assert b"Permission denied" in preloaded.output or b"busy" in preloaded.output
    assert b"x" not in preloaded.output.splitlines()
    program = "import os, sys; print(os.getuid(), os.environ.get('PIP_CERT', ''), len(sys.stdin.read()))"
    result = sandbox.exec([*python_argv(mount), "-c", program], role=Role.ROOT, timeout=20, stdin=b"x" * 300_000)
    assert (result.output, result.exit_code) == (b"0  300000\n", 0)


def test_an_untouched_sandbox_is_not_restarted(sandbox: DockerSandbox) -> None:
    before = sandbox.exec(["ps", "-o", "lstart=", "-p", "1"], role=Role.ROOT, timeout=10).output
    sandbox.quiesce()
    assert sandbox.exec(["ps", "-o", "lstart=", "-p", "1"], role=Role.ROOT, timeout=10).output == before


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
    docker_backend: DockerBackend, docker_settings: Sandbox, plain_image: Image, engine: Engine, session_cache: Path
) -> None:
    mark = new_mark()
    marked = {"label": f"endless.run=abandoned-{mark}"}
    foreign = engine.client.containers.create(plain_image.reference, ["true"], network_mode="none")
    with abandoned(docker_settings, session_cache, f"abandoned-{mark}", mark) as owner:
        docker_backend.reap()
        assert len(engine.client.containers.list(all=True, filters=marked)) >= 1
        owner.kill()
    try:
        assert docker_backend.reap() >= 1
        assert engine.client.containers.list(all=True, filters=marked) == []
        assert engine.client.containers.get(str(foreign.id)).status == "created"
    finally:
        foreign.remove(v=True)


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
