"""A workplace per backend: the acceptance tests run the whole command on each that works here."""

from pathlib import Path

import pytest
from support.endless import Workplace

from runner.schema import Sandbox


@pytest.fixture(scope="session")
def docker_words(docker_settings: Sandbox) -> tuple[str, ...]:
    network = "null" if docker_settings.build_network is None else docker_settings.build_network
    return ("sandbox=docker", f"sandbox.address={docker_settings.address}", f"sandbox.build_network={network}")


@pytest.fixture(scope="session")
def local_words(local_ok: str) -> tuple[str, ...]:
    return ("sandbox=local",)


@pytest.fixture(params=["local", "docker"])
def sandbox_words(request: pytest.FixtureRequest) -> tuple[str, ...]:
    words: tuple[str, ...] = request.getfixturevalue(f"{request.param}_words")
    return words


@pytest.fixture
def workplace(tmp_path: Path, sandbox_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "work", sandbox_words)


@pytest.fixture
def local_workplace(tmp_path: Path, local_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "work", local_words)
