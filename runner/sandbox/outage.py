"""Waiting for a container engine that has gone away: daemons are restarted, and a long run should outlive that."""

import logging
import threading
import time
from threading import Event

from runner.domain.errors import EngineGone

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5


class Outages:
    """What the threads of one piece of work share: an outage is told once, and all give up on it at the same time."""

    def __init__(self, seconds: float) -> None:
        """``seconds``: how long to wait for an engine."""
        self._seconds = seconds
        self._lock = threading.Lock()
        self._ends: float | None = None

    def wait(self, error: EngineGone, stop: Event) -> bool:
        """Wait until the engine answers again. False: it did not in time, or ``stop`` was set."""
        ends = self._begin(error)
        while not error.answers():
            if time.monotonic() >= ends or stop.wait(LOOK_SECONDS):
                return False
        self._end()
        return True

    def _begin(self, error: EngineGone) -> float:
        """When to give up. Who comes soon after others gave up does not wait again."""
        now = time.monotonic()
        with self._lock:
            if self._ends is None or now > self._ends + self._seconds:
                self._ends = now + self._seconds
                log.warning("%s Waiting for it, for up to %g s.", error, self._seconds)
            return self._ends

    def _end(self) -> None:
        with self._lock:
            if self._ends is not None:
                self._ends = None
                log.info("the container engine is back")
