"""Removing containers, whatever became of the engine or of their owner meanwhile."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

from runner.domain.errors import EngineError
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import LIVE, OWNER, is_orphan, label_filter, owner
from runner.sandbox.docker.process_table import may_run

log = logging.getLogger(__name__)

HALF_STARTED_SECONDS = 20.0
"""containerd needs about five to clear away what a daemon was starting when it died."""
SETTLE_SECONDS = 1.0
"""Between two looks at a container that was started in order to be removed."""
REMOVERS = 16
"""Threads that remove what was left; the engine's own limit (``Engine.turn``) may be lower."""


def remove(engine: Engine, container: str) -> None:
    """Remove a container that may be gone already. Raises EngineError when it stays."""
    from docker.errors import APIError, NotFound

    with engine.turn(), engine.trouble("remove a container"):
        try:
            engine.client.api.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # 409: its removal is under way already
                raise


def remove_left(engine: Engine, container: str) -> None:
    """Remove a container whose daemon or owner may have died while it was being started. There may be processes of it
    then, that the next daemon knows nothing of: only another start finds and ends them, be it that it fails. It is not
    made without need: where containerd has lost the holder that it was starting (its log is a pipe that nobody reads
    any more), another start finds that one, and never ends. Raises EngineError when the container stays."""
    deadline = time.monotonic() + HALF_STARTED_SECONDS
    while (again := _start_again(engine, container)) is _Start.LATER and time.monotonic() < deadline:
        time.sleep(1.0)
    if again is _Start.DONE:
        _settle(engine, container)
    remove(engine, container)


class _Start(Enum):
    """What became of another start."""

    NEEDLESS = "the engine knows that it runs, or nothing of it does, or it cannot run any more"
    DONE = "it runs again"
    LATER = "containerd has not done with what became of its last start"


def _start_again(engine: Engine, container: str) -> _Start:
    from docker.errors import APIError

    with engine.turn(), engine.trouble("start a container again"):
        try:
            found = engine.client.api.inspect_container(container)
            if found["State"]["Running"] or not may_run(engine.address, found["Id"]):
                return _Start.NEEDLESS
            engine.client.api.start(container)
        except APIError as error:
            log.debug("a container that was being started: %s", str(error))
            return _Start.LATER if "file exists" in str(error) else _Start.NEEDLESS
    return _Start.DONE


def _settle(engine: Engine, container: str) -> None:
    """Let the engine hear of all that another start has ended and begun. It takes the end of what was found for the end
    of what was started, for two seconds, and would remove the container without its processes in this time."""
    from docker.errors import APIError

    for _ in range(2):
        time.sleep(SETTLE_SECONDS)
        with engine.trouble("look at a container"):
            try:
                engine.client.api.inspect_container(container)  # waits while the engine deals with an end
            except APIError as error:
                log.debug("a container that was started again: %s", str(error))


def remove_or_leave(engine: Engine, container: str, way: Callable[[Engine, str], None]) -> bool:
    """Whether ``remove`` or ``remove_left`` worked; where not, the container waits for ``remove_behind``."""
    try:
        way(engine, container)
    except EngineError as error:
        log.debug("a container stays behind for now: %s", str(error))
        engine.behind.append(container)
        return False
    return True


def remove_behind(engine: Engine) -> None:
    """Remove what could not be removed in its time, now that the engine works."""
    with contextlib.suppress(IndexError):  # there is none, or another thread was faster
        while remove_or_leave(engine, engine.behind.popleft(), remove_left):
            pass


def reap(engine: Engine) -> int:
    """Remove our containers whose owner is dead; returns how many. Raises EngineError."""
    found = orphans(engine)
    _remove_all(engine, found)
    return len(found)


def orphans(engine: Engine, only: Mapping[str, str] | None = None) -> list[str]:
    """Our containers whose owner is dead, and that have the labels ``only``. Raises EngineError."""
    return [name for name, found in _ours(engine, only) if is_orphan(found.get(OWNER, ""))]


def alive(engine: Engine) -> list[Mapping[str, Any]]:
    """All containers, ours or not, but those of ours whose owner is dead. Raises EngineError."""
    with engine.trouble("list containers"):
        found = engine.client.api.containers(all=True)
    return [container for container in found if not is_orphan((container.get("Labels") or {}).get(OWNER, ""))]


def remove_own(engine: Engine) -> None:
    """Remove every container this process still has. Raises EngineError."""
    mine = owner()
    _remove_all(engine, [name for name, found in _ours(engine) if found.get(OWNER) == mine])


def _remove_all(engine: Engine, names: Sequence[str]) -> None:
    """There may be hundreds. Raises EngineError when one stays; the others are removed all the same."""
    with ThreadPoolExecutor(REMOVERS, thread_name_prefix="remove") as pool:
        ended = [pool.submit(remove_left, engine, name) for name in names]
    for future in ended:
        future.result()


def _ours(engine: Engine, only: Mapping[str, str] | None = None) -> list[tuple[str, Mapping[str, str]]]:
    with engine.trouble("list containers"):
        found = engine.client.api.containers(all=True, filters=label_filter(LIVE, only))
    return [(str(container["Id"]), container.get("Labels") or {}) for container in found]
