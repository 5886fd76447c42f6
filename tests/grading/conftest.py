"""Sandboxes to grade in, once per engine: verdicts must not depend on it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runner.domain.task import Environment
from runner.grading.verify import Verdict, verify
from runner.sandbox.base import Backend, Image, Sandbox
from runner.schema import Sandbox as Settings

SETUP = """echo data >/srv/data; echo untouched >/home/user/file
echo 42 >/srv/secret; chmod 600 /srv/secret"""
ENGINES = [
    pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.live]),
    pytest.param("apptainer", marks=[pytest.mark.apptainer, pytest.mark.live]),
    pytest.param("local", marks=[pytest.mark.local, pytest.mark.live]),
]


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A backend with one built environment."""

    backend: Backend
    image: Image

    def start(self) -> AbstractContextManager[Sandbox]:
        return self.backend.start(self.image)

    def verify(
        self,
        sandbox: Sandbox,
        test: str,
        *,
        timeout: float = 30,
        quiesce: bool = True,
        keep_ports: Sequence[int] = (),
    ) -> Verdict:
        grader = self.backend.grader
        return verify(sandbox, grader, test, timeout=timeout, quiesce=quiesce, keep_ports=keep_ports)


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest, session_cache: Path) -> Iterator[Engine]:
    backend = _make(request)(session_cache)
    try:
        image = backend.build(Environment(setup=SETUP), timeout=300)
        assert isinstance(image, Image), image
        yield Engine(backend=backend, image=image)
    finally:
        backend.close()


def _make(request: pytest.FixtureRequest) -> Callable[[Path], Backend]:
    if request.param == "docker":
        from runner.sandbox.docker import DockerBackend

        settings: Settings = request.getfixturevalue("docker_settings")
        return lambda cache: DockerBackend(replace(settings, pids=128), cache, "grading-tests")
    if request.param == "apptainer":
        from runner.sandbox.apptainer import ApptainerBackend

        settings = request.getfixturevalue("apptainer_settings")
        own: Path = request.getfixturevalue("apptainer_cache")
        return lambda _: ApptainerBackend(replace(settings, pids=128), own, "grading-tests")
    from runner.sandbox.local import LocalBackend

    request.getfixturevalue("local_ok")
    return lambda cache: LocalBackend(Settings(backend="local", pids=128), cache, "grading-tests")


@pytest.fixture(scope="module")
def untouched(engine: Engine) -> Iterator[Sandbox]:
    """A sandbox in which no agent has run, for many tests."""
    with engine.start() as sandbox:
        yield sandbox
