"""What we keep in a container engine: images, the grader's volume, and containers that dead processes left."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from runner.domain.errors import EngineError
from runner.sandbox.cache import Inventory, Kept
from runner.sandbox.disk import IN_USE
from runner.sandbox.docker import labels, removal
from runner.sandbox.docker.engine import CALL_SECONDS, Engine
from runner.sandbox.docker.image_cache import ImageCache, label
from runner.sandbox.docker.uses import Uses
from runner.schema import Sandbox as Settings

_NOTEWORTHY = 10**6
_BUILD_CACHE = (
    "{size:.1f} GB more are the engine's own build cache, from imported Dockerfiles and whatever else was built with "
    "it. It does not say whose a record is, and has limits of its own; `docker builder prune` empties it."
)


@contextmanager
def inventory(settings: Settings, cache: Path, since: float | None) -> Iterator[Inventory]:
    """See ``registry.CACHES``."""
    engine = Engine(settings.address, connections=4)
    try:
        yield take_inventory(engine, Uses.below(cache), since)
    finally:
        engine.close()


def take_inventory(engine: Engine, uses: Uses, since: float | None, only: Mapping[str, str] | None = None) -> Inventory:
    """All that is ours; ``only``: that has these labels, too (which volumes and build caches never have). Raises
    EngineError."""
    things = [*ImageCache(engine, uses, only).list(since), *_orphans(engine, only)]
    if only:
        return Inventory(things=things)
    usage = _usage(engine)
    size = sum(record["Size"] for record in usage.get("BuildCache") or () if not record.get("Shared"))
    notes = [_BUILD_CACHE.format(size=size / 1e9)] if size >= _NOTEWORTHY else []
    return Inventory(things=[*things, *_volumes(engine, usage, uses, since)], notes=notes)


def _orphans(engine: Engine, only: Mapping[str, str] | None) -> Iterator[Kept]:
    for name in removal.orphans(engine, only):
        remove = partial(_remove_container, engine, name)
        yield Kept(kind="containers of dead runs", name=name, parts={}, used=0.0, remove=remove, litter=True)


def _remove_container(engine: Engine, name: str) -> bool:
    removal.remove_left(engine, name)
    return True


def _volumes(engine: Engine, usage: Mapping[str, Any], uses: Uses, since: float | None) -> Iterator[Kept]:
    """The grader's. Runs mount them at any moment, so one that has containers here holds them all."""
    busy = any(label(container, labels.MARK) == labels.LIVE for container in removal.alive(engine))
    for volume in usage.get("Volumes") or ():
        if label(volume, labels.MARK) != labels.VOLUME:
            continue
        name = str(volume["Name"])
        used = max(uses.last(name), _seconds(volume.get("CreatedAt")))
        size = max(0, int((volume.get("UsageData") or {}).get("Size", 0)))
        yield Kept(
            kind="grader volumes",
            name=name,
            parts={f"volume {name}": size},
            used=used,
            remove=partial(_remove_volume, engine, uses, name),
            held=IN_USE if busy or (since is not None and used >= since) else "",
        )


def _remove_volume(engine: Engine, uses: Uses, name: str) -> bool:
    from docker.errors import APIError, NotFound

    with engine.trouble("remove a volume"):
        try:
            engine.client.api.remove_volume(name)
        except NotFound:
            pass
        except APIError as error:
            if error.status_code != 409:
                raise
            return False
    uses.forget(name)
    return True


def _usage(engine: Engine) -> dict[str, Any]:
    """What the engine says about volumes and its build cache: sizes, which it has to measure."""
    with engine.trouble("say what takes up disk"):
        api = engine.client.api
        wanted = {"type": ["volume", "build-cache"]}
        answer = api.get(f"{api.base_url}/v{api.api_version}/system/df", params=wanted, timeout=CALL_SECONDS)
        answer.raise_for_status()
        usage = answer.json()
    if not isinstance(usage, dict):
        raise EngineError(f"The container engine at {engine.address} does not say what takes up disk")
    return usage


def _seconds(text: str | None) -> float:
    """Since the epoch, of a time in an answer; now, where there is none that can be read."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return time.time()
