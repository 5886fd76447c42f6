"""Images, volumes and containers of a shared engine: only this test's own are listed, and only they are removed."""

import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from support.abandon import abandoned
from support.processes import new_mark

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.phases.work import Lost, run_all
from runner.sandbox import trim
from runner.sandbox.base import Image, Role
from runner.sandbox.cache import Kept, beyond
from runner.sandbox.docker import DockerBackend, grader
from runner.sandbox.docker import images as docker_images
from runner.sandbox.docker.cache import take_inventory
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.image_cache import ImageCache
from runner.sandbox.docker.labels import MARK, RUN, VOLUME
from runner.sandbox.docker.sandbox import DockerSandbox
from runner.sandbox.docker.uses import Uses
from runner.sandbox.runtime import ensure_runtime, python_argv
from runner.sandbox.trim import Trimmer
from runner.schema import Executor, Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.live]
MB = 1_000_000


class Place:
    """A run of its own name, and what the engine keeps of it."""

    def __init__(self, settings: Sandbox, cache: Path) -> None:
        self.label = f"clean-{secrets.token_hex(6)}"
        self.uses = Uses.below(cache)
        self.engine = Engine(settings.address)
        self.backend = DockerBackend(settings, cache, self.label)

    def build(self, script: str) -> Image:
        image = self.backend.build(Environment(setup=f": {self.label}\n{script}"), timeout=120)
        assert isinstance(image, Image), image
        return image

    def things(self, kind: str = "task images", since: float | None = None) -> list[Kept]:
        found = take_inventory(self.engine, self.uses, since, {RUN: self.label}).things
        return [thing for thing in found if thing.kind == kind]

    def trims(self, limit_gb: float) -> Trimmer:
        """Let the backend trim its own images, and nobody else's."""
        trimmer = Trimmer(limit_gb, ImageCache(self.engine, self.uses, {RUN: self.label}).list)
        self.backend._images._on_build = trimmer.built
        return trimmer

    def close(self) -> None:
        self.backend.close()
        for kind in ("replaced images", "task images"):
            for thing in self.things(kind):
                thing.remove()
        self.engine.close()


@pytest.fixture
def make_place(docker_settings: Sandbox, session_cache: Path) -> Iterator[Callable[[], Place]]:
    made: list[Place] = []

    def make() -> Place:
        made.append(Place(docker_settings, session_cache))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.fixture
def place(make_place: Callable[[], Place]) -> Place:
    return make_place()


def write(megabytes: int) -> str:
    return f"head -c {megabytes * MB} /dev/urandom >/srv/data"


def test_an_image_is_listed_with_its_own_size_and_last_use_and_is_built_again_when_removed(place: Place) -> None:
    before = time.time() - 1
    small, large = place.build(write(1)), place.build(write(5))
    things = {thing.name: thing for thing in place.things()}
    assert things.keys() == {small.reference, large.reference}
    shared = set.intersection(*(set(thing.parts) for thing in things.values()))
    own = {name: sum(n for part, n in thing.parts.items() if part not in shared) for name, thing in things.items()}
    assert MB <= own[small.reference] < 2 * MB
    assert 5 * MB <= own[large.reference] < 6 * MB
    assert all(thing.built and before <= thing.used <= time.time() + 1 for thing in things.values())
    assert things[small.reference].remove()
    assert things[small.reference].remove()  # it is gone already
    assert [thing.name for thing in place.things()] == [large.reference]
    assert place.build(write(1)) == small
    assert len(place.things()) == 2


def test_what_was_used_since_it_was_listed_stays(place: Place) -> None:
    image = place.build("true")
    (listed,) = place.things()
    time.sleep(0.05)
    place.build("true")
    assert not listed.remove()
    assert place.things()[0].name == image.reference


def test_what_has_a_container_or_a_live_run_is_held(place: Place) -> None:
    before = time.time() - 1
    image, other = place.build("true"), place.build("echo other")
    with place.backend.start(image):
        held = {thing.name: thing for thing in place.things()}
        assert held[image.reference].held == "a container uses it"
        assert held[other.reference].held == "a run that works now uses it"
        assert not held[image.reference].remove()
        assert beyond(held.values(), 0, recent=time.time() + 60) == []
    assert not any(thing.held for thing in place.things())
    assert all(thing.held == "a run that works now uses it" for thing in place.things(since=before))


def test_containers_of_dead_runs_are_listed_and_removed(
    place: Place, docker_settings: Sandbox, session_cache: Path
) -> None:
    setup = place.build("true").environment.setup
    with abandoned(docker_settings, session_cache, place.label, new_mark(), setup) as owner:
        assert place.things("containers of dead runs") == []
        owner.kill()
    (orphan,) = place.things("containers of dead runs")
    assert orphan.litter
    assert not place.things()[0].held
    assert orphan.remove()
    assert place.things("containers of dead runs") == []


def test_what_others_made_of_an_image_of_ours_is_not_ours(place: Place) -> None:
    image = place.build("true")
    client, name = place.engine.client, f"{place.label}-others"
    client.images.get(image.reference).tag(name, "1")
    client.api.remove_image(image.reference)
    try:
        assert client.images.get(f"{name}:1").labels[MARK] == "image"
        assert place.things() == []
    finally:
        client.images.remove(f"{name}:1")


# The limit


def test_beyond_the_limit_the_longest_unused_image_goes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "RECENT_SECONDS", 0.0)
    old, new = place.build(write(4)), place.build(write(3))
    time.sleep(1.1)  # an engine's own times are whole seconds
    place.build(write(3))
    trimmer = place.trims(0.0085)
    newest = place.build(write(2))
    assert trimmer._thread is not None
    trimmer._thread.join(20)
    assert {thing.name for thing in place.things()} == {new.reference, newest.reference}
    assert old.reference not in {new.reference, newest.reference}


def test_a_run_whose_image_another_run_removes_builds_it_again(place: Place) -> None:
    """Found, then removed, then started: the start is infrastructure trouble, and the next try builds first."""
    ended: list[str | Lost] = []
    tries: list[int] = []

    def episode(number: int) -> str:
        image = place.build("echo here >/srv/mark")
        tries.append(number)
        if len(tries) == 1:
            assert docker_images.remove(place.engine, image.reference)
        with place.backend.start(image) as sandbox:
            return sandbox.exec(["cat", "/srv/mark"], role=Role.AGENT, timeout=10).output.decode()

    executor = Executor(workers=1, backoff_seconds=0.05)
    run_all([0], episode, lambda _, result: ended.append(result), executor=executor, stop=Event())
    assert ended == ["here\n"]
    assert len(tries) == 2


def test_two_runs_that_keep_removing_each_others_images_both_end_well(
    make_place: Callable[[], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(trim, "LOOK_SECONDS", 0.0)
    one, other = make_place(), make_place()
    other.label = one.label
    other.backend._images._run = one.label
    trimmers = [one.trims(0), other.trims(0)]
    ended: dict[int, str | Lost] = {}

    def episode(number: int) -> str:
        place = (one, other)[number % 2]
        with place.backend.start(place.build(f"echo {number // 4} >/srv/mark")) as sandbox:
            return sandbox.exec(["cat", "/srv/mark"], role=Role.AGENT, timeout=10).output.decode()

    executor = Executor(workers=6, infra_retries=20, backoff_seconds=0.02)
    run_all(range(24), episode, ended.__setitem__, executor=executor, stop=Event())
    assert ended == {number: f"{number // 4}\n" for number in range(24)}
    for trimmer in trimmers:
        trimmer.close()
    last = one.trims(0)
    one.build("echo last")
    assert last._thread is not None
    last._thread.join(60)
    assert one.things("replaced images") == []  # what both had built at once


def test_a_volume_that_was_removed_under_a_run_is_filled_again(
    place: Place, session_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / f"copy-{secrets.token_hex(6)}"
    shutil.copytree(ensure_runtime(session_cache), runtime)
    monkeypatch.setattr(grader, "ensure_runtime", lambda cache: runtime)
    image, name = place.build("true"), f"endless-grader-{runtime.name}"
    try:
        with place.backend.start(image) as sandbox:
            assert _graded(place, sandbox) == b"42\n"
        place.engine.client.api.remove_volume(name)
        with place.backend._started(image) as early:
            with pytest.raises(EngineError, match="could not be executed"), place.backend._started(image) as sandbox:
                _graded(place, sandbox)
            with place.backend._started(image) as sandbox:
                assert _graded(place, sandbox) == b"42\n"
            assert _graded(place, early) == b"42\n", "it was started before the volume was filled again"
        labels = place.engine.client.volumes.get(name).attrs["Labels"]
        assert labels == {MARK: VOLUME}, "so that it is cleaned away some day"
    finally:
        place.engine.client.api.remove_volume(name)


def _graded(place: Place, sandbox: DockerSandbox) -> bytes:
    argv = [*python_argv(place.backend.grader), "-c", "print(6 * 7)"]
    return sandbox.exec(argv, role=Role.ROOT, timeout=20).output


def test_without_a_limit_nothing_is_looked_at(docker_settings: Sandbox, session_cache: Path) -> None:
    backend = DockerBackend(replace(docker_settings, cache_gb=None), session_cache, "tests")
    backend._trimmer.built()
    backend.close()
    assert not backend._engine.connected
