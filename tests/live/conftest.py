"""A workplace per backend: the acceptance tests run the whole command on each that works here."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
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
def backend(request: pytest.FixtureRequest) -> str:
    """Each in turn."""
    return str(request.param)


@pytest.fixture
def workplace(request: pytest.FixtureRequest, backend: str) -> Workplace:
    """One on each backend in turn."""
    place: Workplace = request.getfixturevalue(f"{backend}_workplace")
    return place


@pytest.fixture
def docker_workplace(tmp_path: Path, docker_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "docker", docker_words)


@pytest.fixture
def apptainer_workplace(apptainer_cache: Path, apptainer_words: tuple[str, ...]) -> Workplace:
    return _with_cache(apptainer_cache, apptainer_words)


@pytest.fixture
def local_workplace(tmp_path: Path, local_words: tuple[str, ...]) -> Workplace:
    return Workplace(tmp_path / "local", local_words)


@pytest.fixture(scope="module")
def quickstart(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Workplace, str]]:
    """Backend -> a workplace in which the quickstart has run, and what it printed. Each runs once, when it is asked
    for; skips where the backend does not work."""

    @cache
    def finished(backend: str) -> tuple[Workplace, str]:
        words = request.getfixturevalue(f"{backend}_words")
        if backend == "apptainer":
            place = _with_cache(request.getfixturevalue("apptainer_cache"), words)
        else:
            place = Workplace(tmp_path_factory.mktemp(backend), words)
        return place, place.run("quickstart")

    return finished


def _with_cache(cache: Path, words: tuple[str, ...]) -> Workplace:
    """One whose cache our test engine's Apptainer, which is another user, can write to."""
    folder = Path(tempfile.mkdtemp(dir=cache))
    folder.chmod(0o755)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "cache").symlink_to(cache)
    return Workplace(folder, words)
