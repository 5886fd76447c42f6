"""How commands are told to end, without a command: ``tests/live/test_signals.py`` has those."""

import os
import signal
import threading

import pytest

from runner.cli.signals import Interrupted, exit_code, raising, stopping


def tell(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("interrupt", "code"),
    [
        (KeyboardInterrupt(), 130),
        (Interrupted(signal.SIGINT), 130),
        (Interrupted(signal.SIGTERM), 143),
        (Interrupted(signal.SIGHUP), 129),
    ],
)
def test_the_exit_code_is_the_shells(interrupt: KeyboardInterrupt, code: int) -> None:
    assert exit_code(interrupt) == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_raises_and_the_handlers_before_come_back(number: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=signal.Signals(number).name), raising():
        tell(number)
    assert signal.getsignal(number) is before


def test_the_first_stops_and_the_second_raises() -> None:
    told: list[str] = []
    with stopping(told.append) as stop:
        tell(signal.SIGTERM)
        assert stop.is_set()
        assert stop.number == signal.SIGTERM
        with pytest.raises(Interrupted, match="SIGINT"):
            tell(signal.SIGINT)
    assert len(told) == 1


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with raising():
            tell(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_another_thread_changes_nothing() -> None:
    found = []

    def work() -> None:
        with stopping(print) as stop:
            found.append((stop.is_set(), signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]
