"""What all backends share in the cache, and what killed processes left in the temporary folder."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.sandbox.cache import Inventory, Kept
from runner.sandbox.disk import kept, litter
from runner.schema import Sandbox as Settings
from runner.store.scratch import abandoned, remove_abandoned


@contextmanager
def inventory(settings: Settings, cache: Path, since: float | None) -> Iterator[Inventory]:
    """See ``registry.CACHES``."""
    temporary = (thing for path in abandoned() for thing in litter("temporary folders", path, _remove_scratch))
    yield Inventory(things=[*_graders(cache / "grader", since), *temporary])


def _graders(folder: Path, since: float | None) -> Iterator[Kept]:
    """The grader's Pythons, and what is half of one: only the holder of its lock may tell that from a new one."""
    for mark in sorted(folder.glob("*.lock")):
        yield from kept("grader's Python", mark.with_suffix(""), shutil.rmtree, since=since, mark=mark)
        if _is_free(mark):
            yield from litter("half-made", mark.with_suffix(".partial"), shutil.rmtree)


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or another user's
        return False
    return True


def _remove_scratch(path: Path) -> None:
    remove_abandoned(path)
