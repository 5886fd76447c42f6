"""How a command ends when it is told to: Ctrl-C, a supervisor's SIGTERM, the hang-up of a terminal that closes.

Whatever it is, sandboxes are removed and what is done is kept. A signal that was ignored when we were started (by
``nohup``, say) stays ignored.
"""

import errno
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from threading import Event
from types import FrameType
from typing import Any, NoReturn, TextIO, TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A command was told to end."""

    def __init__(self, number: int) -> None:
        """``number``: by which signal."""
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """What a shell makes of a program that the signal ended: 130 for Ctrl-C."""
    return 128 + getattr(interrupt, "number", signal.SIGINT)


@contextmanager
def raising() -> Iterator[None]:
    """Every signal raises ``Interrupted`` in the main thread, wherever it is."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled_by(on_signal):
        yield


class Stop(Event):
    """Set once the work is to stop."""

    number: int = signal.SIGINT
    """The signal that set it."""


@contextmanager
def stopping(tell: Callable[[str], None]) -> Iterator[Stop]:
    """The first signal sets the event: calls in flight are finished and kept. A second one raises ``Interrupted``,
    unless it is a hang-up: of a terminal that closes, both the kernel and the shell may tell us. ``tell`` tells the
    user what happens."""
    stop = Stop()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            if number == signal.SIGHUP:
                return
            raise Interrupted(number)
        stop.number = number
        stop.set()
        tell("stopping: calls in flight are finished and kept (again to stop at once)")

    with _handled_by(on_signal):
        yield stop


def leave(text: str, code: int) -> NoReturn:
    """Say so and end at once: threads may still be at work, for minutes, and an ordinary exit would wait for them."""
    print(text, file=sys.stderr)
    sys.stdout.flush()
    os._exit(code)


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Signals are the main thread's: elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        handler(number, frame)

    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in taken:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


class _Lasting:
    """A standard stream that drops what is written once its terminal has gone, where that would be an error: a run in
    the background (``disown``) goes on, one that gets a SIGHUP ends well."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._tried(lambda: self._stream.write(text)) or 0

    def flush(self) -> None:
        self._tried(self._stream.flush)

    def _tried(self, action: Callable[[], T]) -> T | None:
        try:
            return action()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            _leave_terminal()
            return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Standard output and error outlive their terminal."""
    output: Any = _Lasting(sys.stdout)
    errors: Any = _Lasting(sys.stderr)
    with redirect_stdout(output), redirect_stderr(errors):
        yield


def _leave_terminal() -> None:
    """Nobody reads any more."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode):  # one that has closed no longer says that it is a terminal
            os.dup2(null, descriptor)
    os.close(null)
