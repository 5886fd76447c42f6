"""From an episode's thread to the event loop of whoever plays it: a trainer's worker, or Harbor.

What is asked there (an engine, a sandbox) is asynchronous, the agent's loop is not. ``Bridge`` is the way from one to
the other, and the way to end an episode that nobody waits for any more.
"""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from runner.domain.errors import EndlessError, InfraError

T = TypeVar("T")

_LOOK_SECONDS = 5.0
"""How often a waiting episode looks whether the event loop still runs."""


class Abandoned(EndlessError):
    """Nobody waits for this episode any more: its time is up, or all of it was cancelled."""

    def __init__(self) -> None:
        super().__init__("nobody waits for this episode any more")


class Bridge:
    """Lets a thread wait for work on the event loop that made this, until it is stopped."""

    def __init__(self) -> None:
        """To be made on the event loop; work runs in the context of that moment, where Harbor keeps settings."""
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._pending: concurrent.futures.Future[Any] | None = None
        self.stopped = threading.Event()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. Raises Abandoned once stopped, InfraError for work that others cancelled, and what it raises."""
        with self._lock:
            if self.stopped.is_set() or self._loop.is_closed():
                work.close()
                raise Abandoned
            submit = self._context.copy().run
            self._pending = future = submit(asyncio.run_coroutine_threadsafe, work, self._loop)
        try:
            return self._result(future)
        except concurrent.futures.CancelledError as error:
            if self.stopped.is_set():
                raise Abandoned from error
            raise InfraError("what this episode waited for was cancelled") from error

    def stop(self) -> None:
        """End the wait in hand and every later one. From any thread."""
        with self._lock:
            self.stopped.set()
            if self._pending is not None:
                self._pending.cancel()

    def _result(self, future: "concurrent.futures.Future[T]") -> T:
        """Wait, but not for a loop that has ended with its process: threads are waited for at exit."""
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimeoutError:
                if future.done():  # the work's own
                    raise
                if not self._loop.is_running():
                    raise Abandoned from None
