"""Many items, retries, clean stops."""

import threading
import time

import pytest

from runner.domain.errors import BudgetExceeded, InfraError, StorageError
from runner.phases.work import Lost, Stopped, run_all
from runner.schema import Executor

QUICK = Executor(workers=4, infra_retries=2, backoff_seconds=0.001)


def collect(items, work, executor=QUICK, stop=None):
    ended = {}
    run_all(items, work, ended.__setitem__, executor=executor, stop=stop or threading.Event())
    return ended


def test_every_item_ends_once():
    assert collect(range(50), lambda n: n * n) == {n: n * n for n in range(50)}


def test_trouble_is_retried_and_an_item_that_recovers_is_whole():
    trials = []

    def work(n):
        trials.append(n)
        if len(trials) < 3:
            raise InfraError("no daemon")
        return "done"

    assert collect([1], work) == {1: "done"}
    assert len(trials) == 3


def test_an_item_that_never_recovers_is_lost_with_its_cause_and_the_others_go_on():
    def work(n):
        if n == 3:
            raise InfraError("no daemon")
        return n

    ended = collect(range(8), work)
    assert ended[3] == Lost("no daemon")
    assert len(ended) == 8


def test_general_trouble_ends_the_work_with_its_cause():
    def work(_):
        raise InfraError("no daemon")

    with pytest.raises(InfraError, match="in a row were lost; the last one: no daemon"):
        collect(range(1000), work)


@pytest.mark.parametrize("error", [BudgetExceeded("spent"), StorageError("full"), ValueError("bug")])
def test_any_other_error_ends_the_work_and_keeps_what_was_in_hand(error):
    gate = threading.Event()

    def work(n):
        if n == 0:
            gate.set()
            raise error
        gate.wait(5)
        return n

    ended = {}
    with pytest.raises(type(error)):
        run_all(range(1000), work, ended.__setitem__, executor=QUICK, stop=threading.Event())
    assert 0 not in ended
    assert len(ended) < 20


def test_a_stop_starts_nothing_new_and_keeps_what_ended():
    stop = threading.Event()

    def work(n):
        if n == 5:
            stop.set()
        return n

    ended = {}
    with pytest.raises(Stopped):
        run_all(range(1000), work, ended.__setitem__, executor=QUICK, stop=stop)
    assert 5 in ended
    assert len(ended) < 50


def test_a_second_ctrl_c_waits_for_nothing_that_is_in_hand():
    gate = threading.Event()

    def work(n):
        return n if n == 0 else gate.wait(30)

    def on_end(item, result):
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_all(range(8), work, on_end, executor=QUICK, stop=threading.Event())
    assert time.monotonic() - began < 10
    gate.set()


def test_what_a_stop_refuses_is_not_lost():
    """Whoever waits for a sandbox is told by an InfraError that there will be none, on its last trial perhaps."""
    stop, ended = threading.Event(), {}

    def work(_):
        stop.set()
        raise InfraError("No sandbox is opened any more")

    with pytest.raises(Stopped):
        run_all([1], work, ended.__setitem__, executor=Executor(workers=1, infra_retries=0), stop=stop)
    assert ended == {}


def test_a_stop_ends_a_retry_at_once():
    stop = threading.Event()
    stop.set()
    slow = Executor(workers=1, infra_retries=5, backoff_seconds=1000)

    def work(_):
        raise InfraError("no daemon")

    with pytest.raises(Stopped):
        collect([1], work, slow, stop)
