"""Many independent items through a thread pool: retried when infrastructure fails, stopped cleanly when it must end.

An item is pure and may be run again: what it already paid for is in the journal, what it finished is on disk.
"""

import logging
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import TypeVar

from runner.domain.errors import EndlessError, EngineGone, InfraError, StorageError
from runner.sandbox.outage import Outages
from runner.schema import Executor

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")


class Stopped(EndlessError):
    """The work was interrupted; what was finished is kept."""


@dataclass(frozen=True)
class Lost:
    """An item that infrastructure kept from ending."""

    cause: str


def run_all(
    items: Iterable[T],
    work: Callable[[T], R],
    on_end: Callable[[T, R | Lost], None],
    *,
    executor: Executor,
    stop: Event,
) -> None:
    """Run ``work`` on every item, ``executor.workers`` at a time, and hand each result to ``on_end`` in this thread.

    An InfraError is retried with back-off, once the engine is back if it had gone, and then becomes ``Lost``. When as
    many items in a row are lost as there are workers (at least four), the trouble is general and is raised instead of
    losing the rest one by one. Any other exception ends the work: items in hand are waited for, then it is raised; only
    after a KeyboardInterrupt (a second Ctrl-C) they are left alone. Raises Stopped when ``stop`` was set.
    """
    pool = ThreadPoolExecutor(executor.workers, thread_name_prefix="worker")
    patient = True
    try:
        _feed(pool, iter(items), _retrying(work, executor, stop), on_end, executor.workers, stop)
    except KeyboardInterrupt:
        patient = False
        raise
    finally:
        pool.shutdown(wait=patient, cancel_futures=True)


def _feed(
    pool: ThreadPoolExecutor,
    queue: Iterator[T],
    work: Callable[[T], R | Lost],
    on_end: Callable[[T, R | Lost], None],
    workers: int,
    stop: Event,
) -> None:
    """Keep ``workers`` items in hand until none is left."""
    lost_in_a_row = 0
    hand: dict[Future[R | Lost], T] = {pool.submit(work, i): i for i in islice(queue, workers)}
    try:
        while hand:
            ended, _ = wait(hand, return_when=FIRST_COMPLETED)
            for future in ended:
                item, result = hand.pop(future), future.result()
                on_end(item, result)
                lost_in_a_row = lost_in_a_row + 1 if isinstance(result, Lost) else 0
                if isinstance(result, Lost) and lost_in_a_row >= max(4, workers):
                    raise InfraError(f"{lost_in_a_row} items in a row were lost; the last one: {result.cause}")
            if stop.is_set():
                raise Stopped("interrupted")
            hand |= {pool.submit(work, i): i for i in islice(queue, len(ended))}
    except Exception:
        _drain(hand, on_end)
        raise


def _drain(hand: dict[Future[R | Lost], T], on_end: Callable[[T, R | Lost], None]) -> None:
    """Keep the results of items still in hand when the work ends early; their own troubles are not the cause."""
    for future in hand:
        future.cancel()
    wait(hand)
    for future, item in hand.items():
        if not future.cancelled() and future.exception() is None:
            result = future.result()
            if not isinstance(result, Lost):
                on_end(item, result)


def _retrying(work: Callable[[T], R], executor: Executor, stop: Event) -> Callable[[T], R | Lost]:
    outages = Outages(executor.engine_seconds)

    def attempt(item: T) -> R | Lost:
        for trial in range(executor.infra_retries + 1):
            try:
                return work(item)
            except StorageError:
                raise
            except InfraError as error:
                if stop.is_set():
                    raise Stopped("interrupted") from error
                if trial == executor.infra_retries:
                    return Lost(str(error))
                if isinstance(error, EngineGone) and not outages.wait(error, stop) and not stop.is_set():
                    return Lost(str(error))
                delay = executor.backoff_seconds * 2**trial * random.uniform(0.5, 1.5)
                log.debug("retry %d of %d in %.1f s: %s", trial + 1, executor.infra_retries, delay, error)
                if stop.wait(delay):
                    raise Stopped("interrupted") from error
        raise AssertionError("unreachable")

    return attempt
