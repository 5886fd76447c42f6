"""Backends and shells for the sandbox tests."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.engines import ENGINES, InSandbox, Ready, Runs
from support.shells import plain_shell

from runner.domain.task import Environment
from runner.sandbox.apptainer import ApptainerBackend
from runner.sandbox.base import Backend, Image
from runner.sandbox.base import Sandbox as StartedSandbox
from runner.sandbox.docker import DockerBackend
from runner.sandbox.local import LocalBackend
from runner.schema import Sandbox

LIMIT = 200_000


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


@pytest.fixture(scope="session", params=ENGINES)
def ready(request: pytest.FixtureRequest) -> Ready:
    """Each backend in turn, with the base image and nothing else."""
    image = "plain_image" if request.param == "docker" else f"{request.param}_image"
    return Ready(
        name=request.param,
        backend=request.getfixturevalue(f"{request.param}_backend"),
        image=request.getfixturevalue(image),
    )


@pytest.fixture
def sandbox(ready: Ready) -> Iterator[StartedSandbox]:
    """A fresh one of each backend; test files about one backend have their own."""
    with ready.start() as opened:
        yield opened


@pytest.fixture(params=["plain", *ENGINES])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runs]:
    """A fresh persistent shell: over plain pipes, in containers, and in a local sandbox."""
    if request.param == "plain":
        with plain_shell(tmp_path, LIMIT) as plain:
            yield plain
        return
    image = "plain_image" if request.param == "docker" else f"{request.param}_image"
    backend: Backend = request.getfixturevalue(f"{request.param}_backend")
    with backend.start(request.getfixturevalue(image)) as sandbox:
        yield InSandbox(sandbox)
