"""What every test may ask for. A test that needs an engine skips with the reason where there is none."""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.daemon import Daemon, copy_image, private_daemon

from runner.sandbox.docker.engine import find_address
from runner.sandbox.registry import probe_one
from runner.schema import Sandbox

_MACHINE = ("live", "benchmarks", "cli", "sandbox")
_BESIDE_OTHERS = frozenset(
    f"test_{name}.py"
    for name in (
        *("shell", "shell_torture", "backends", "services", "docker_parts", "runtime", "registry"),
        *("advice", "cache", "lease", "trim", "readme", "local_elsewhere"),
        *("providers", "sweep", "evaluate", "vllm", "training", "crash", "terminalbench"),
    )
)
_FIRST = "test_training.py"
"""The longest of those that run beside others, so that it is not the last to end."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what must have the machine to itself; all else runs in as many processes as there are cores."""
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).parts[0] in _MACHINE and item.path.name not in _BESIDE_OTHERS:
            item.add_marker("machine")
    items.sort(key=lambda item: item.path.name != _FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where ENDLESS_REQUIRE_LIVE is set (CI, which has every engine), a live test that is skipped has failed."""
    report = yield
    if report.skipped and os.environ.get("ENDLESS_REQUIRE_LIVE") and item.get_closest_marker("live"):
        report.outcome = "failed"
        report.longrepr = f"a live test was skipped where every engine should be: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and under ``nohup`` a hang-up: commands would, too."""
    ordinary = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    ignored = [number for number in ordinary if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, ordinary[number])
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def docker_address() -> str:
    """The address of a container engine that answers; skips where there is none."""
    found = probe_one("docker")
    if not found.ok:
        pytest.skip(f"no container engine: {found.detail}")
    return find_address()


@pytest.fixture(scope="session")
def docker_settings(docker_address: str) -> Sandbox:
    """A recipe's ``sandbox`` section that works on this engine, which may lack an ordinary network."""
    from runner.sandbox.docker.engine import Engine

    engine = Engine(docker_address)
    try:
        names = {network.name for network in engine.client.networks.list()}
    finally:
        engine.close()
    return Sandbox(backend="docker", address=docker_address, build_network=None if "bridge" in names else "host")


@pytest.fixture(scope="session")
def daemon(docker_address: str, docker_settings: Sandbox) -> Iterator[Daemon]:
    """A Docker daemon of the tests' own, with the base image: it may be killed, and is up before and after a test."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(private_daemon(docker_address))
        except OSError as error:
            pytest.skip(f"no Docker daemon to kill: {error}")
        copy_image(docker_settings.base_image, docker_address, made.address)
        yield made


@pytest.fixture(scope="session")
def local_ok() -> str:
    """What the local sandbox says about this machine; skips where it cannot work."""
    found = probe_one("local")
    if not found.ok:
        pytest.skip(f"no local sandbox: {found.detail}")
    return found.detail


@pytest.fixture(scope="session")
def apptainer_ok() -> str:
    """What the Apptainer backend says about this machine; skips where it cannot work."""
    found = probe_one("apptainer")
    if not found.ok:
        pytest.skip(f"no Apptainer: {found.detail}")
    return found.detail


@pytest.fixture(scope="session")
def apptainer_cache(apptainer_ok: str) -> Iterator[Path]:
    """A cache that Apptainer may write to even where it runs as another user, as it does in our test engine."""
    folder = Path(tempfile.mkdtemp(prefix="endless-apptainer-"))
    (folder / "apptainer" / "base").mkdir(parents=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def apptainer_settings(apptainer_cache: Path) -> Sandbox:
    """A recipe's ``sandbox`` section; the base image comes from the container engine, where there is one."""
    settings = Sandbox(backend="apptainer")
    if not probe_one("docker").ok:
        return settings
    from runner.sandbox.docker.engine import Engine

    engine, archive = Engine(find_address()), apptainer_cache / "base.tar"
    try:
        with archive.open("wb") as file:
            file.writelines(engine.client.images.get(settings.base_image).save(named=True))
    finally:
        engine.close()
    return replace(settings, base_image=str(archive))


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what is made once a session: the grader's runtime takes some seconds."""
    return tmp_path_factory.mktemp("cache")
