"""Backends and shells for the sandbox tests."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest
from support.shells import plain_shell

from runner.domain.task import Environment
from runner.sandbox.apptainer import ApptainerBackend
from runner.sandbox.base import Backend, ExecResult, Image
from runner.sandbox.docker import DockerBackend
from runner.sandbox.local import LocalBackend
from runner.schema import Sandbox

LIMIT = 200_000


class Runs(Protocol):
    """What a plain shell and a sandbox have in common."""

    def run(self, command: str, timeout: float) -> ExecResult: ...


@pytest.fixture(scope="session")
def docker_backend(docker_settings: Sandbox, session_cache: Path) -> Iterator[DockerBackend]:
    backend = DockerBackend(replace(docker_settings, output_bytes=LIMIT), session_cache, "tests")
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def plain_image(docker_backend: DockerBackend) -> Image:
    """The base image and nothing else."""
    built = docker_backend.build(Environment(setup="true"), timeout=120)
    assert isinstance(built, Image)
    return built


@pytest.fixture(scope="session")
def local_backend(local_ok: str, session_cache: Path) -> Iterator[LocalBackend]:
    backend = LocalBackend(Sandbox(backend="local", output_bytes=LIMIT), session_cache, "tests")
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def local_image(local_backend: LocalBackend) -> Image:
    """This machine's system folders and nothing else."""
    built = local_backend.build(Environment(setup="true"), timeout=120)
    assert isinstance(built, Image)
    return built


@pytest.fixture(scope="session")
def apptainer_backend(apptainer_settings: Sandbox, apptainer_cache: Path) -> Iterator[ApptainerBackend]:
    backend = ApptainerBackend(replace(apptainer_settings, output_bytes=LIMIT), apptainer_cache, "tests")
    yield backend
    backend.close()


@pytest.fixture(scope="session")
def apptainer_image(apptainer_backend: ApptainerBackend) -> Image:
    """The base image and nothing else."""
    built = apptainer_backend.build(Environment(setup="true"), timeout=120)
    assert isinstance(built, Image)
    return built


@pytest.fixture(
    params=[
        "plain",
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.live]),
        pytest.param("apptainer", marks=[pytest.mark.apptainer, pytest.mark.live]),
        pytest.param("local", marks=[pytest.mark.local, pytest.mark.live]),
    ],
)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runs]:
    """A fresh persistent shell: over plain pipes, in containers, and in a local sandbox."""
    with shell_of(request, tmp_path) as opened:
        yield opened


def shell_of(request: pytest.FixtureRequest, home: Path) -> AbstractContextManager[Runs]:
    if request.param == "plain":
        return plain_shell(home, LIMIT)
    image = "plain_image" if request.param == "docker" else f"{request.param}_image"
    return _sandbox_shell(request.getfixturevalue(f"{request.param}_backend"), request.getfixturevalue(image))


@contextmanager
def _sandbox_shell(backend: Backend, image: Image) -> Iterator[Runs]:
    with backend.start(image) as sandbox:
        yield _Named(lambda command, timeout: sandbox.run(command, timeout=timeout))


class _Named:
    def __init__(self, run: Callable[[str, float], ExecResult]) -> None:
        self.run = run
