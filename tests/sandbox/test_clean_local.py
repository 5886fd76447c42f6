"""The local backend's layers: kept below a size, held by live runs, built again when they are wanted."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from runner.domain.task import Environment
from runner.phases.work import Lost, run_all
from runner.sandbox import trim
from runner.sandbox.base import Image
from runner.sandbox.cache import Kept
from runner.sandbox.lease import cleaning
from runner.sandbox.local import LocalBackend
from runner.sandbox.local.cache import inventory, layers
from runner.sandbox.runtime import ensure_runtime
from runner.schema import Executor, Sandbox

pytestmark = [pytest.mark.local, pytest.mark.live]
HOUR = 3600
Open = Callable[..., LocalBackend]


@pytest.fixture
def cache(tmp_path: Path, session_cache: Path) -> Path:
    """A cache of the test's own, but for the grader, which takes some seconds to make."""
    ensure_runtime(session_cache)
    (tmp_path / "grader").symlink_to(session_cache / "grader")
    return tmp_path


@pytest.fixture
def open_backend(local_ok: str, cache: Path) -> Iterator[Open]:
    opened: list[LocalBackend] = []

    def make(**settings: object) -> LocalBackend:
        opened.append(LocalBackend(Sandbox(backend="local", **settings), cache, "tests"))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


def build(backend: LocalBackend, megabytes: int) -> Path:
    script = f"head -c {megabytes}000000 /dev/urandom >/srv/data"
    image = backend.build(Environment(setup=script), timeout=60)
    assert isinstance(image, Image), image
    return Path(image.reference)


def looked(backend: LocalBackend) -> None:
    """Wait until its trimmer has looked, and let the next build make it look again."""
    assert backend._trimmer._thread is not None
    backend._trimmer._thread.join(60)
    backend._trimmer._next_look = 0.0


def kept(cache: Path, since: float | None = None) -> list[Kept]:
    with inventory(Sandbox(), cache, since) as found:
        return list(found.things)


def test_beyond_the_limit_the_longest_unused_layer_goes(open_backend: Open, cache: Path) -> None:
    backend = open_backend(cache_gb=0.0065)
    old, older = build(backend, 2), build(backend, 3)
    for path, hours in ((old, 1), (older, 2)):
        os.utime(path, (time.time(), time.time() - hours * HOUR))
    looked(backend)
    new = build(backend, 4)
    looked(backend)
    assert [path.exists() for path in (older, old, new)] == [False, True, True]
    assert sorted(thing.name for thing in kept(cache)) == sorted([str(old), str(new)])


def test_being_found_is_being_used(open_backend: Open, cache: Path) -> None:
    backend = open_backend()
    layer = build(backend, 1)
    os.utime(layer, (0, 0))
    (listed,) = kept(cache)
    assert listed.used == 0
    assert build(backend, 1) == layer
    assert time.time() - kept(cache)[0].used < 60
    assert not listed.remove()
    assert layer.exists()


def test_a_live_run_holds_what_it_has_used(open_backend: Open, cache: Path) -> None:
    first = open_backend()
    os.utime(build(first, 1), (0, 0))
    first.close()
    second = open_backend()
    used = build(second, 2)
    with cleaning(cache) as since:
        assert {Path(thing.name) for thing in kept(cache, since) if thing.held} == {used}
    second.close()
    with cleaning(cache) as since:
        assert not any(thing.held for thing in kept(cache, since))


def test_two_runs_that_keep_removing_each_others_layers_both_end_well(
    open_backend: Open, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(trim, "LOOK_SECONDS", 0.0)
    backends = [open_backend(cache_gb=0.0), open_backend(cache_gb=0.0)]
    ended: dict[int, str | Lost] = {}

    def episode(number: int) -> str:
        backend = backends[number % 2]
        image = backend.build(Environment(setup=f"echo {number // 4} >/srv/mark"), timeout=60)
        assert isinstance(image, Image), image
        with backend.start(image) as sandbox:
            return sandbox.run("cat /srv/mark", timeout=20).output.decode()

    executor = Executor(workers=4, infra_retries=20, backoff_seconds=0.02)
    run_all(range(24), episode, ended.__setitem__, executor=executor, stop=Event())
    assert ended == {number: f"{number // 4}\n" for number in range(24)}


def test_only_layers_are_listed(cache: Path) -> None:
    for name in ("notes.tar", "0" * 32 + ".txt", "0" * 32 + ".tar"):
        (cache / "local").mkdir(exist_ok=True)
        (cache / "local" / name).write_text("x")
    assert [Path(thing.name).name for thing in layers(cache / "local")] == ["0" * 32 + ".tar"]
