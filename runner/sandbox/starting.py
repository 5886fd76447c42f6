"""Opening sandboxes so that an episode never waits for one while a slot is free, and the machine is not overrun.

Who asks for a sandbox passes three gates, each in the order of asking:

1. **ahead**: ``concurrency + prestart`` sandboxes may exist at once, those being removed included;
2. **starting**: some of them (``at_once``) are being started at once. An engine takes starts almost one by one, and a
   hundred at once only make each of them slow enough to fail. Trouble that passes by itself is tried again here;
3. **running**: ``concurrency`` of them are used at once. Whoever waits here has a started sandbox in hand.

A build makes its own container, so it passes the first and the last of them.

The workers that wait *are* the forecast of what is needed next, image and all, so there is no pool to keep filled: no
thread in the background, no sandbox that nobody asked for. A sandbox is removed after its slot has gone to the next.
"""

import logging
import os
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

from runner.domain.errors import EngineError
from runner.schema import Sandbox as Settings

log = logging.getLogger(__name__)

S = TypeVar("S")

FEWEST, MOST = 8, 32
TRIES = 4
PAUSE_SECONDS = 0.4
"""Before the second try; doubled before each further one, and spread by half, so that neighbours do not meet again."""


def at_once(settings: Settings) -> int:
    """How many sandboxes are started at the same time."""
    return settings.starts or max(FEWEST, min(2 * (os.cpu_count() or 1), MOST))


class Places:
    """A number of places, given out in the order of asking. (A ``threading.Semaphore`` lets newcomers jump in.)"""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._queue: deque[Future[None]] = deque()
        self._refusal = ""

    @contextmanager
    def taken(self, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
        """Wait for a place and hold it. ``meanwhile`` is done first where one has to wait. Raises EngineError when
        refused."""
        turn = self._ask()
        try:
            if meanwhile is not None and not turn.done():
                meanwhile()
            turn.result()
        except BaseException:  # refused; or a Ctrl-C in the main thread, which may come with the place
            if not turn.cancel() and turn.exception() is None:
                self._give_back()
            raise
        try:
            yield
        finally:
            self._give_back()

    def refuse(self, why: str) -> None:
        """From now on, who waits or asks for a place gets an EngineError. Places that are held are not touched."""
        with self._lock:
            self._refusal = why
            waiting, self._queue = self._queue, deque()
        for turn in waiting:
            if turn.set_running_or_notify_cancel():
                turn.set_exception(EngineError(why))

    def _ask(self) -> Future[None]:
        """A turn that is done once the place is ours."""
        turn: Future[None] = Future()
        with self._lock:
            if self._refusal:
                raise EngineError(self._refusal)
            if self._free:
                self._free -= 1
                turn.set_result(None)
            else:
                self._queue.append(turn)
        return turn

    def _give_back(self) -> None:
        """Straight to the next one who still waits."""
        with self._lock:
            while self._queue:
                turn = self._queue.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._free += 1


class OneOfEach:
    """One place for each name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: Counter[str] = Counter()
        self._places: dict[str, Places] = {}
        self._refusal = ""

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """Wait for the place of this name and hold it. Raises EngineError when refused."""
        with self._lock:
            if self._refusal:
                raise EngineError(self._refusal)
            self._wanted[name] += 1
            place = self._places.setdefault(name, Places(1))
        try:
            with place.taken():
                yield
        finally:
            with self._lock:
                self._wanted[name] -= 1
                if not self._wanted[name]:
                    del self._wanted[name], self._places[name]

    def refuse(self, why: str) -> None:
        """See ``Places.refuse``."""
        with self._lock:
            self._refusal = why
            places = list(self._places.values())
        for place in places:
            place.refuse(why)


class Starter:
    """The three gates of one backend. Safe to use from many threads."""

    def __init__(self, settings: Settings, passes: Callable[[EngineError], bool]) -> None:
        """``passes``: whether a failed start is worth another try, because such trouble passes by itself."""
        self._ahead = Places(settings.concurrency + settings.prestart)
        self._starting = Places(at_once(settings))
        self._running = Places(settings.concurrency)
        self._builds = OneOfEach()
        self._passes = passes
        self._stopped = threading.Event()

    @contextmanager
    def opened(
        self, start: Callable[[], AbstractContextManager[S]], meanwhile: Callable[[S], None] | None = None
    ) -> Iterator[S]:
        """A sandbox that ``start`` makes, in a slot. ``meanwhile`` readies it further where the slot has to be waited
        for. Raises EngineError when it does not start, or when ``stop`` was called before it had its slot."""
        with self._ahead.taken(), ExitStack() as stack:
            with self._starting.taken():
                sandbox = self._started(start, stack)
            with self._running.taken(None if meanwhile is None else lambda: meanwhile(sandbox)):
                yield sandbox

    @contextmanager
    def building(self, what: str) -> Iterator[None]:
        """A slot for a build, one at a time of what has the same name: who has waited may find it built. Raises
        EngineError after ``stop``."""
        with self._builds.taken(what), self._ahead.taken(), self._running.taken():
            yield

    def stop(self) -> None:
        """Open nothing more: who waits or asks gets an EngineError; sandboxes in a slot go on. Idempotent."""
        self._stopped.set()
        for places in (self._builds, self._ahead, self._starting, self._running):
            places.refuse("No sandbox is opened any more: the run is ending.")

    def _started(self, start: Callable[[], AbstractContextManager[S]], stack: ExitStack) -> S:
        for trial in range(1, TRIES):
            try:
                return stack.enter_context(start())
            except EngineError as error:
                if not self._passes(error):
                    raise
                log.debug("start %d of %d failed: %s", trial, TRIES, str(error))
                if self._stopped.wait(PAUSE_SECONDS * 2 ** (trial - 1) * random.uniform(0.5, 1.5)):
                    raise
        return stack.enter_context(start())
