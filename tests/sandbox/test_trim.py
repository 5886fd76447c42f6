"""A run keeps what it builds below a size, in the background."""

import logging
import time
from collections.abc import Callable

import pytest

from runner.domain.errors import EngineError
from runner.sandbox import trim
from runner.sandbox.cache import GB, Kept
from runner.sandbox.trim import Trimmer

HOUR = 3600.0


class Shelf:
    """Three built tasks of a GB each, the first of which was used an hour ago and the last just now."""

    def __init__(self) -> None:
        self.things = {name: time.time() - hours * HOUR for name, hours in (("a", 2), ("b", 1), ("c", 0))}
        self.looks = 0

    def list(self) -> list[Kept]:
        self.looks += 1
        return [
            Kept(kind="tasks", name=name, parts={name: GB}, used=used, remove=self._remover(name), built=True)
            for name, used in self.things.items()
        ]

    def _remover(self, name: str) -> Callable[[], bool]:
        return lambda: self.things.pop(name, 0.0) > 0


def trimmed(limit: float | None, shelf: Shelf) -> str:
    trimmer = Trimmer(limit, shelf.list)
    trimmer.built()
    if trimmer._thread is not None:
        trimmer._thread.join(20)
    trimmer.close()
    return "".join(shelf.things)


def test_the_longest_unused_goes_and_what_was_used_just_now_stays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert trimmed(2.5, Shelf()) == "bc"
    assert "removed 1 built tasks (1.0 GB) to keep within sandbox.cache_gb" in caplog.text
    assert trimmed(0, Shelf()) == "c"
    assert "the tasks in use take 1.0 GB, more than sandbox.cache_gb (0)" in caplog.text


def test_litter_goes_within_the_limit_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    gone = []
    thing = Kept(
        kind="replaced",
        name="x",
        parts={"x": 1},
        used=time.time(),
        litter=True,
        remove=lambda: gone.append("x") is None,
    )
    trimmer = Trimmer(3, lambda: [thing])
    trimmer.built()
    assert trimmer._thread is not None
    trimmer._thread.join(20)
    assert gone == ["x"]
    assert caplog.text == ""


def test_within_the_limit_or_without_one_nothing_goes() -> None:
    assert trimmed(3, Shelf()) == "abc"
    shelf = Shelf()
    assert trimmed(None, shelf) == "abc"
    assert shelf.looks == 0


def test_it_looks_once_in_a_while_and_not_at_every_build(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    trimmer = Trimmer(3, shelf.list)
    for _ in range(100):
        trimmer.built()
    time.sleep(0.2)
    assert shelf.looks == 1
    monkeypatch.setattr(trim, "LOOK_SECONDS", 0.0)
    trimmer = Trimmer(3, shelf.list)
    trimmer.built()
    time.sleep(0.2)
    trimmer.built()
    trimmer.close()
    trimmer.built()
    assert shelf.looks == 3


def test_an_engine_that_fails_costs_the_run_nothing() -> None:
    def fail() -> list[Kept]:
        raise EngineError("gone")

    trimmer = Trimmer(3, fail)
    trimmer.built()
    trimmer.close()
