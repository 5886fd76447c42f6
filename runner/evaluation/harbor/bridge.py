"""From an episode's thread to Harbor's event loop: the loop's sandboxes are asynchronous, our agent's loop is not."""

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from runner.domain.errors import EndlessError

T = TypeVar("T")


class Abandoned(EndlessError):
    """Harbor no longer waits for this episode: its time is up, or the job was cancelled."""


class Bridge:
    """Lets a thread wait for work on the event loop that made this, until it is stopped."""

    def __init__(self) -> None:
        """To be made on the event loop; work runs in the context of that moment, where Harbor keeps settings."""
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._pending: concurrent.futures.Future[Any] | None = None
        self.stopped = False

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. Raises Abandoned once stopped, and whatever the work raises."""
        with self._lock:
            if self.stopped:
                work.close()
                raise Abandoned("Harbor no longer waits for this episode")
            self._pending = future = concurrent.futures.Future[T]()
            self._loop.call_soon_threadsafe(self._start, work, future)
        try:
            return future.result()
        except concurrent.futures.CancelledError as error:
            raise Abandoned("Harbor no longer waits for this episode") from error

    def stop(self) -> None:
        """End the wait in hand and every later one."""
        with self._lock:
            self.stopped = True
            if self._pending is not None:
                self._pending.cancel()

    def _start(self, work: Coroutine[Any, Any, T], future: "concurrent.futures.Future[T]") -> None:
        task = self._loop.create_task(work, context=self._context.copy())
        task.add_done_callback(lambda done: _hand_over(done, future))
        future.add_done_callback(lambda _: self._loop.call_soon_threadsafe(task.cancel))


def _hand_over(task: "asyncio.Task[T]", future: "concurrent.futures.Future[T]") -> None:
    if task.cancelled():
        future.cancel()
    elif future.set_running_or_notify_cancel():
        error = task.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())
