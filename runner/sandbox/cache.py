"""What sandboxes keep for speed, and which of it goes first. Nothing here knows an engine or a file.

Each backend lists what it keeps as ``Kept`` (see ``registry.CACHES``). ``endless clean`` picks from the lists, and
``trim.Trimmer`` keeps a run's below ``sandbox.cache_gb``. Whatever is removed is made again when it is wanted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

GB = 10**9


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One thing that is kept: an image, a layer, a volume, a folder."""

    kind: str
    """In the plural: ``task images``."""
    name: str
    parts: Mapping[str, int]
    """What takes up disk, with its size in bytes. A part that several things share has the same name in each."""
    used: float
    """When it was last used, in seconds since the epoch."""
    remove: Callable[[], bool]
    """Returns whether it is gone; False where somebody began to use it. Raises EngineError."""
    built: bool = False
    """Made from a task, and so subject to ``sandbox.cache_gb``; else common to all tasks."""
    litter: bool = False
    """Of no use to anybody: half-made, or left by a dead process."""
    held: str = ""
    """Why it must stay; empty when it may go."""


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What one backend keeps."""

    things: Sequence[Kept] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    """What takes up disk, too, but is not ours to remove, one line each."""


def unused(things: Iterable[Kept], *, since: float) -> list[Kept]:
    """What may go because nobody has used it since then: litter always may."""
    return [thing for thing in things if not thing.held and (thing.litter or thing.used < since)]


def beyond(things: Iterable[Kept], limit: float, *, recent: float) -> list[Kept]:
    """The built things to remove so that the rest fits into ``limit`` bytes: the longest unused first, and none that
    is held or was used after ``recent``. What they share with things of other kinds is not counted."""
    things = list(things)
    common = {part for thing in things if not thing.built for part in thing.parts}
    built = sorted((thing for thing in things if thing.built), key=lambda thing: thing.used)
    users: dict[str, int] = {}
    for thing in built:
        for part in thing.parts.keys() - common:
            users[part] = users.get(part, 0) + 1
    size = sum({part: n for thing in built for part, n in thing.parts.items() if part in users}.values())
    gone = []
    for thing in built:
        if size <= limit:
            break
        if thing.held or thing.used > recent:
            continue
        gone.append(thing)
        for part in thing.parts.keys() & users.keys():
            users[part] -= 1
            size -= 0 if users[part] else thing.parts[part]
    return gone


def without_needed(gone: Iterable[Kept], things: Iterable[Kept]) -> list[Kept]:
    """Those of ``gone`` that the things which stay do not need: a base image whose every part is in some task's image
    frees nothing. Dependent things come first."""
    gone = list(gone)
    leaving = {id(thing) for thing in gone}
    needed = {part for thing in things if id(thing) not in leaving for part in thing.parts}
    going = [thing for thing in gone if not thing.parts or not thing.parts.keys() <= needed]
    return sorted(going, key=lambda thing: (not thing.litter, not thing.built))


def own_size(some: Iterable[Kept], things: Iterable[Kept]) -> int:
    """Bytes of ``some`` of the things, what is shared counted once, and what built ones share with others not."""
    common = {part for thing in things if not thing.built for part in thing.parts}
    return sum({p: n for thing in some for p, n in thing.parts.items() if not (thing.built and p in common)}.values())


def freed(gone: Iterable[Kept], stays: Iterable[Kept]) -> int:
    """Bytes that are free once ``gone`` is gone."""
    still = {part for thing in stays for part in thing.parts}
    return sum({p: size for thing in gone for p, size in thing.parts.items() if p not in still}.values())
