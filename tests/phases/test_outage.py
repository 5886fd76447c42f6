"""Waiting for an engine that has gone away."""

import logging
import pickle
import threading
import time

import pytest

from runner.domain.errors import EngineError, EngineGone
from runner.phases.work import Lost, Stopped, run_all
from runner.sandbox.outage import Outages
from runner.schema import Executor


class Engine:
    """Does not answer before ``back`` is set."""

    def __init__(self) -> None:
        self.back = threading.Event()

    def gone(self) -> EngineGone:
        return EngineGone("nothing answers", self.back.is_set)


def collect(work, executor, stop=None, items=range(8)):
    ended = {}
    run_all(items, work, ended.__setitem__, executor=executor, stop=stop or threading.Event())
    return ended


def test_an_outage_of_any_length_below_the_limit_costs_each_item_one_retry(caplog: pytest.LogCaptureFixture) -> None:
    engine, trials = Engine(), []

    def work(item: int) -> int:
        trials.append(item)
        if not engine.back.is_set():
            raise engine.gone()
        return item

    threading.Timer(1.5, engine.back.set).start()
    executor = Executor(workers=8, infra_retries=1, backoff_seconds=0.01, engine_seconds=60)
    with caplog.at_level(logging.INFO, "runner"):
        assert collect(work, executor) == {item: item for item in range(8)}
    assert len(trials) == 16
    assert [record.levelname for record in caplog.records].count("WARNING") == 1, "it is told once"
    assert caplog.messages.count("the container engine is back") == 1


def test_all_give_up_at_the_same_time_and_later_ones_do_not_wait_again() -> None:
    engine = Engine()

    def work(item: int) -> int:
        if item == 7:
            return item
        raise engine.gone()

    executor = Executor(workers=2, infra_retries=3, backoff_seconds=0.01, engine_seconds=1)
    began = time.monotonic()
    ended = collect(work, executor, items=[0, 1, 2, 7])
    assert time.monotonic() - began < 4
    assert ended == {0: Lost("nothing answers"), 1: Lost("nothing answers"), 2: Lost("nothing answers"), 7: 7}


def test_a_later_outage_is_waited_for_again() -> None:
    outages = Outages(30)
    for _ in range(2):
        engine = Engine()
        threading.Timer(0.7, engine.back.set).start()
        assert outages.wait(engine.gone(), threading.Event())


def test_a_stop_ends_the_waiting() -> None:
    stop = threading.Event()

    def work(item: int) -> int:
        raise Engine().gone()

    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        collect(work, Executor(workers=4, engine_seconds=300), stop)
    assert time.monotonic() - began < 10


def test_the_error_can_be_carried_to_another_process() -> None:
    carried = pickle.loads(pickle.dumps(Engine().gone()))
    assert type(carried) is EngineError
    assert str(carried) == "nothing answers"
