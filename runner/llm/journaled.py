"""The outer link of the chain: an answered call is read from the journal, a new one is recorded before it is used."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from runner import schema
from runner.domain.errors import ReplayMiss
from runner.llm.base import Client, Completion, Request
from runner.llm.identity import identity
from runner.llm.journal import Journal

_log = logging.getLogger(__name__)


class JournaledClient:
    """A client that never pays twice. ``inner`` None answers from the journal alone. Closes what it wraps."""

    def __init__(self, inner: Client | None, journal: Journal, model: schema.Model) -> None:
        self._inner = inner
        self._journal = journal
        self._model = model
        self._flights = _Flights()
        self._unsaved: dict[tuple[str, str], Completion] = {}
        self._lock = threading.Lock()
        self._replayed = 0
        self._drifted = 0

    @property
    def replayed(self) -> int:
        """Calls that the journal answered."""
        return self._replayed

    @property
    def drifted(self) -> int:
        """Those among them whose conversation was not quite the recorded one."""
        return self._drifted

    def complete(self, request: Request) -> Completion:
        """The recorded answer, else the inner client's. Raises what that raises, StorageError and ReplayMiss."""
        key = identity(self._model, request)
        with self._flights.alone(request.slot):
            hit = self._journal.lookup(request, key)
            if hit is not None:
                self._count(hit, request.slot)
                return hit
            return self._live(request, key)

    def close(self) -> None:
        """Close the inner client. Idempotent."""
        if self._inner is not None:
            self._inner.close()

    def _live(self, request: Request, key: str) -> Completion:
        # An answer that could not be written (a full disk) is kept, so that the retry writes it and does not pay again.
        completion = self._unsaved.get((request.slot, key)) or self._ask(request)
        self._unsaved[request.slot, key] = completion
        self._journal.record(request, key, completion)
        del self._unsaved[request.slot, key]
        return completion

    def _ask(self, request: Request) -> Completion:
        if self._inner is None:
            raise ReplayMiss(f"the journal {self._journal.root} holds no answer for {request.slot}")
        return self._inner.complete(request)

    def _count(self, hit: Completion, slot: str) -> None:
        with self._lock:
            self._replayed += 1
            self._drifted += hit.drift is not None
        if hit.drift is not None:
            _log.info("%s: the conversation differs from the recorded one; its answer is used all the same", slot)


class _Flights:
    """One lock a slot, for as long as somebody is in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def alone(self, slot: str) -> Iterator[None]:
        """Wait until nobody else is in this slot."""
        with self._lock:
            lock, users = self._slots.get(slot, (threading.Lock(), 0))
            self._slots[slot] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            self._leave(slot)

    def _leave(self, slot: str) -> None:
        with self._lock:
            lock, users = self._slots[slot]
            if users == 1:
                del self._slots[slot]
            else:
                self._slots[slot] = (lock, users - 1)
