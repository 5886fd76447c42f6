"""Keeping what a run builds within ``sandbox.cache_gb`` while it works."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from runner.domain.errors import EndlessError
from runner.sandbox.cache import GB, Kept, beyond, freed, unused

log = logging.getLogger(__name__)

RECENT_SECONDS = 600.0
"""What was used so recently is wanted again soon: no limit removes it."""
LOOK_SECONDS = 60.0
"""How often a run looks at the sizes."""
PATIENCE_SECONDS = 20.0


class Trimmer:
    """Keeps what a run's backend has built below a size, in a thread of its own. Thread-safe."""

    def __init__(self, limit_gb: float | None, inventory: Callable[[], Sequence[Kept]]) -> None:
        """``limit_gb`` None: no limit. ``inventory`` may be slow, and raise EndlessError."""
        self._limit, self._inventory = limit_gb, inventory
        self._lock = threading.Lock()
        self._next_look = 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._told = False

    def built(self) -> None:
        """Something was built: look at the sizes, unless that was done just now. Returns at once."""
        if self._limit is None:
            return
        with self._lock:
            busy = self._thread is not None and self._thread.is_alive()
            if busy or self._closing.is_set() or time.monotonic() < self._next_look:
                return
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._thread = threading.Thread(target=self._look, name="trim the cache", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let what is being removed be removed, and look no more. Idempotent."""
        self._closing.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(PATIENCE_SECONDS)

    def _look(self) -> None:
        try:
            self._trim()
        except EndlessError as error:
            log.debug("the cache could not be trimmed: %s", error)

    def _trim(self) -> None:
        assert self._limit is not None
        things = self._inventory()
        litter = unused(things, since=0.0)  # an image, say, that two runs have built at once: one has its name
        gone = [*litter, *beyond(things, self._limit * GB, recent=time.time() - RECENT_SECONDS)]
        removed = [thing for thing in gone if not self._closing.is_set() and thing.remove()]
        names = {id(thing) for thing in removed}
        stays = [thing for thing in things if id(thing) not in names]
        if built := [thing for thing in removed if thing.built]:
            size = freed(built, stays) / GB
            log.info("removed %d built tasks (%.1f GB) to keep within sandbox.cache_gb", len(built), size)
        self._tell(stays)

    def _tell(self, stays: Sequence[Kept]) -> None:
        """Say, once, that the limit is too low for what is in use."""
        common = [thing for thing in stays if not thing.built]
        size = freed([thing for thing in stays if thing.built], common) / GB
        if not self._told and not self._closing.is_set() and self._limit is not None and size > self._limit:
            self._told = True
            log.warning("the tasks in use take %.1f GB, more than sandbox.cache_gb (%g)", size, self._limit)
