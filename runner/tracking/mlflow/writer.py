"""One thread that does all the writing, in order, and stops at the first trouble.

The run must not wait for a tracking server, and MLflow's client is happiest in one thread. Jobs queue up; the first
that fails is reported once and the rest are dropped. The thread is a daemon, so a server that hangs cannot hold the
process: ``close`` waits for as long as it is told and no longer.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

Job = Callable[[], None]


class Writer:
    """Starts its thread with the first job. ``around`` wraps the thread's whole life."""

    def __init__(self, *, around: AbstractContextManager[None], failed: Callable[[str, Exception], None]) -> None:
        self._around = around
        self._failed = failed
        self._jobs: queue.Queue[tuple[str, Job] | None] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._broken = False

    @property
    def waiting(self) -> int:
        """Jobs not begun yet, roughly."""
        return self._jobs.qsize()

    def submit(self, what: str, job: Job) -> None:
        """Queue a job; ``what`` completes the sentence "could not ..."."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)
            self._thread.start()
        self._jobs.put((what, job))

    def close(self, seconds: float) -> bool:
        """Finish what is queued. False when that took longer than ``seconds``."""
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(seconds)
        finished = not self._thread.is_alive()
        self._broken = True  # what is still queued, if anything, is dropped
        return finished

    def _work(self) -> None:
        with self._around:
            while (item := self._jobs.get()) is not None:
                if not self._broken:
                    self._attempt(*item)

    def _attempt(self, what: str, job: Job) -> None:
        try:
            job()
        except Exception as error:  # tracking never stops a run, whatever MLflow may raise
            self._broken = True
            self._failed(what, error)
