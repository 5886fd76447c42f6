"""A workplace per backend: the acceptance tests run the whole command on each that works here."""

import os
import tempfile
from pathlib import Path

import pytest
from support.endless import Workplace

from runner.sandbox.registry import probe_one
from runner.schema import Sandbox

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These take a quarter of an hour, so a machine without a container engine runs only the one that is ``quick``."""
    if os.environ.get("ENDLESS_REQUIRE_LIVE") or probe_one("docker").ok:
        return
    reason = "acceptance tests run where a container engine is (or with ENDLESS_REQUIRE_LIVE=1)"
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def docker_words(docker_settings: Sandbox) -> tuple[str, ...]:
    network = "null" if docker_settings.build_network is None else docker_settings.build_network
    return ("sandbox=docker", f"sandbox.address={docker_settings.address}", f"sandbox.build_network={network}")


@pytest.fixture(scope="session")
def local_words(local_ok: str) -> tuple[str, ...]:
    return ("sandbox=local",)


@pytest.fixture(scope="session")
def apptainer_words(apptainer_settings: Sandbox) -> tuple[str, ...]:
    return ("sandbox=apptainer", f"sandbox.base_image={apptainer_settings.base_image}")


@pytest.fixture(params=["local", "docker", pytest.param("apptainer", marks=pytest.mark.apptainer)])
def workplace(request: pytest.FixtureRequest) -> Workplace:
    """One on each backend in turn."""
    place: Workplace = request.getfixturevalue(f"{request.param}_workplace")
    return place


@pytest.fixture
def workplaces(request: pytest.FixtureRequest) -> dict[str, Workplace]:
    """One on every backend; skips unless all of them work here."""
    return {name: request.getfixturevalue(f"{name}_workplace") for name in ("local", "docker", "apptainer")}


@pytest.fixture
def docker_workplace(tmp_path: Path, docker_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "docker", docker_words)


@pytest.fixture
def apptainer_workplace(apptainer_cache: Path, apptainer_words: tuple[str, ...]) -> Workplace:
    """Its cache is one that our test engine's Apptainer, which is another user, can write to."""
    folder = Path(tempfile.mkdtemp(dir=apptainer_cache))
    folder.chmod(0o755)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "cache").symlink_to(apptainer_cache)
    return Workplace(folder, apptainer_words)


@pytest.fixture
def local_workplace(tmp_path: Path, local_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "local", local_words)
