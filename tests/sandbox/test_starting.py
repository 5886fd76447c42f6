"""The three gates in front of a sandbox: limits, order, what waits for what, and that nothing is ever kept."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.domain.errors import EngineError
from runner.sandbox import starting
from runner.sandbox.starting import TRIES, Places, Starter
from runner.schema import Sandbox

SECONDS = 20.0
"""No wait in here takes long, unless something is broken."""


@dataclass
class Yard:
    """Counts sandboxes that are started, and how many of them are in use."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    alive: int = 0
    starting: int = 0
    used: int = 0
    most: dict[str, int] = field(default_factory=dict)

    def change(self, what: str, by: int) -> None:
        with self.lock:
            setattr(self, what, getattr(self, what) + by)
            self.most[what] = max(self.most.get(what, 0), getattr(self, what))

    @contextmanager
    def counted(self, what: str) -> Iterator[None]:
        self.change(what, 1)
        try:
            yield
        finally:
            self.change(what, -1)

    @contextmanager
    def sandbox(self, fails: Callable[[], bool] = lambda: False) -> Iterator[str]:
        with self.counted("alive"):
            with self.counted("starting"):
                if fails():
                    raise EngineError("no luck")
            yield "sandbox"


class Gate:
    """A point that a thread waits at until the test lets it pass; both sides notice when the other does not come."""

    def __init__(self) -> None:
        self.reached, self.free = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.free.wait(SECONDS), "nobody let this thread pass"

    def await_thread(self) -> None:
        assert self.reached.wait(SECONDS), "no thread came here"


@contextmanager
def gated(*, start: Gate | None = None, end: Gate | None = None) -> Iterator[str]:
    if start:
        start()
    yield "sandbox"
    if end:
        end()


def opened() -> Gate:
    gate = Gate()
    gate.free.set()
    return gate


def starter(concurrency: int, prestart: int, starts: int = 4, *, passes: bool = False) -> Starter:
    return Starter(Sandbox(concurrency=concurrency, prestart=prestart, starts=starts), lambda error: passes)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as workers:
        yield workers


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PAUSE_SECONDS", 0.001)


def use(gates: Starter, start: Callable[[], AbstractContextManager[str]], body: Callable[[], None]) -> None:
    with gates.opened(start):
        body()


# What waits for what


def test_the_next_sandbox_is_started_while_the_slot_is_still_taken(pool: ThreadPoolExecutor) -> None:
    gates, first, second = starter(1, 1), Gate(), Gate()
    started = opened()
    one = pool.submit(use, gates, gated, first)
    first.await_thread()
    two = pool.submit(use, gates, lambda: gated(start=started), second)
    started.await_thread()  # the first sandbox is still in use
    assert not second.reached.is_set()
    first.free.set()
    second.await_thread()
    second.free.set()
    assert [one.result(SECONDS), two.result(SECONDS)] == [None, None]


def test_a_slot_goes_to_the_next_before_the_old_sandbox_is_removed(pool: ThreadPoolExecutor) -> None:
    gates, removal, second = starter(1, 1), Gate(), opened()
    one = pool.submit(use, gates, lambda: gated(end=removal), lambda: None)
    removal.await_thread()
    pool.submit(use, gates, gated, second).result(SECONDS)  # would wait for ever, if it waited for the removal
    assert not one.done()
    removal.free.set()
    one.result(SECONDS)


def test_without_prestart_a_sandbox_is_started_only_when_the_old_one_is_gone(pool: ThreadPoolExecutor) -> None:
    gates, removal, started = starter(1, 0), Gate(), opened()
    pool.submit(use, gates, lambda: gated(end=removal), lambda: None)
    removal.await_thread()
    two = pool.submit(use, gates, lambda: gated(start=started), lambda: None)
    assert not started.reached.wait(0.1)
    removal.free.set()
    two.result(SECONDS)


def test_what_can_be_readied_is_readied_only_by_those_who_wait(pool: ThreadPoolExecutor) -> None:
    gates, first, readied = starter(1, 1), Gate(), opened()

    def open_and_ready() -> None:
        with gates.opened(gated, lambda sandbox: readied()):
            first()

    one = pool.submit(open_and_ready)
    first.await_thread()
    assert not readied.reached.is_set()
    two = pool.submit(open_and_ready)
    readied.await_thread()
    first.free.set()
    assert [one.result(SECONDS), two.result(SECONDS)] == [None, None]


def test_slots_are_given_in_the_order_of_asking(pool: ThreadPoolExecutor) -> None:
    gates, first, order = starter(1, 20), Gate(), list[int]()
    pool.submit(use, gates, gated, first)
    first.await_thread()
    waiting = []
    for number in range(20):
        ready = opened()

        def wait_in_line(number: int = number, ready: Gate = ready) -> None:
            with gates.opened(gated, lambda sandbox: ready()):
                order.append(number)

        waiting.append(pool.submit(wait_in_line))
        ready.await_thread()  # it stands in line now
    first.free.set()
    for future in waiting:
        future.result(SECONDS)
    assert order == list(range(20))


def test_what_several_want_built_is_built_by_one_at_a_time_and_others_go_on(pool: ThreadPoolExecutor) -> None:
    gates, first, other, built = starter(4, 0), Gate(), opened(), list[str]()

    def build(name: str, gate: Gate) -> None:
        with gates.building(name):
            if name not in built:
                gate()
                built.append(name)

    same = [pool.submit(build, "image", first) for _ in range(10)]
    first.await_thread()
    pool.submit(build, "other image", other).result(SECONDS)
    assert not any(future.done() for future in same)
    first.free.set()
    for future in same:
        future.result(SECONDS)
    assert built == ["other image", "image"]


# Limits


@settings(max_examples=30, deadline=None)
@given(
    concurrency=st.integers(1, 4),
    prestart=st.integers(0, 4),
    starts=st.integers(1, 3),
    works=st.lists(st.sampled_from(["run", "build", "fails", "breaks"]), min_size=1, max_size=24),
    seed=st.integers(0, 1 << 16),
)
def test_no_limit_is_ever_passed_and_nothing_is_kept(
    concurrency: int, prestart: int, starts: int, works: list[str], seed: int
) -> None:
    gates, yard, dice = starter(concurrency, prestart, starts, passes=True), Yard(), random.Random(seed)
    nap = threading.Event()

    def work(kind: str) -> None:
        delay = dice.random() / 500
        if kind == "build":
            with gates.building(str(delay)), yard.counted("used"), yard.counted("alive"):
                nap.wait(delay)
            return
        with gates.opened(lambda: yard.sandbox(lambda: kind == "fails")), yard.counted("used"):
            nap.wait(delay)
            if kind == "breaks":
                raise ZeroDivisionError

    with ThreadPoolExecutor(len(works)) as pool:
        ended = [(kind, pool.submit(work, kind)) for kind in works]
    expected = {"fails": EngineError, "breaks": ZeroDivisionError}
    for kind, future in ended:
        assert type(future.exception()) is expected.get(kind, type(None))
    assert (yard.alive, yard.used, yard.starting) == (0, 0, 0)
    assert yard.most.get("used", 0) <= concurrency
    assert yard.most.get("alive", 0) <= concurrency + prestart
    assert yard.most.get("starting", 0) <= starts
    _all_free(gates, concurrency)


def _all_free(gates: Starter, concurrency: int) -> None:
    """Every place can be had again: as many as there are slots meet inside."""
    meeting = threading.Barrier(concurrency)
    with ThreadPoolExecutor(concurrency) as pool:
        for future in [pool.submit(use, gates, gated, lambda: meeting.wait(SECONDS)) for _ in range(concurrency)]:
            future.result(SECONDS)


# Trouble


def test_a_start_is_tried_again_when_the_trouble_passes_and_leaves_nothing_of_the_failures() -> None:
    yard, luck = Yard(), iter([True] * (TRIES - 1) + [False])
    with starter(1, 0, passes=True).opened(lambda: yard.sandbox(lambda: next(luck))):
        assert yard.alive == 1
    assert yard.alive == 0


def test_a_start_that_keeps_failing_is_an_engine_error_after_a_few_tries() -> None:
    yard, tries = Yard(), list[int]()

    def fails() -> bool:
        tries.append(1)
        return True

    gates = starter(1, 0, passes=True)
    with pytest.raises(EngineError, match="no luck"), gates.opened(lambda: yard.sandbox(fails)):
        pass
    assert (len(tries), yard.alive) == (TRIES, 0)
    _all_free(gates, 1)


def test_trouble_that_does_not_pass_is_not_tried_again() -> None:
    tries = iter([True])
    with pytest.raises(EngineError), starter(1, 0).opened(lambda: Yard().sandbox(lambda: next(tries))):
        pass


def test_stopping_refuses_those_who_wait_and_lets_the_others_go_on(pool: ThreadPoolExecutor) -> None:
    gates, first, started = starter(1, 1), Gate(), opened()
    one = pool.submit(use, gates, gated, first)
    first.await_thread()
    waiting: list[Future[None]] = [pool.submit(use, gates, lambda: gated(start=started), lambda: None)]
    started.await_thread()  # one has a sandbox and waits for its slot, the other waits to start one
    waiting.append(pool.submit(use, gates, gated, lambda: None))
    gates.stop()
    for future in waiting:
        with pytest.raises(EngineError, match="ending"):
            future.result(SECONDS)
    assert not one.done()
    first.free.set()
    one.result(SECONDS)
    with pytest.raises(EngineError, match="ending"), gates.building("image"):
        pass


def test_stopping_ends_the_pause_before_another_try(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PAUSE_SECONDS", 1000.0)
    gates, tried = starter(1, 0, passes=True), opened()

    @contextmanager
    def fails() -> Iterator[str]:
        tried()
        raise EngineError("no luck")
        yield ""

    trying = pool.submit(use, gates, fails, lambda: None)
    tried.await_thread()
    gates.stop()
    with pytest.raises(EngineError):
        trying.result(SECONDS)


def test_who_gives_up_waiting_leaves_the_place_to_the_next(pool: ThreadPoolExecutor) -> None:
    places, first, second = Places(1), Gate(), opened()

    def hold(gate: Gate) -> None:
        with places.taken():
            gate()

    def give_up() -> None:
        raise KeyboardInterrupt

    one = pool.submit(hold, first)
    first.await_thread()
    with pytest.raises(KeyboardInterrupt), places.taken(give_up):
        pass
    two = pool.submit(hold, second)
    first.free.set()
    assert [one.result(SECONDS), two.result(SECONDS)] == [None, None]
