"""What the local backend keeps: the layers it has built, a file each, whose time is their last use."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.sandbox.cache import Inventory, Kept
from runner.sandbox.disk import half_made, kept, unlink
from runner.schema import Sandbox as Settings

_LAYER = re.compile(r"[0-9a-f]{32}\.tar")


@contextmanager
def inventory(settings: Settings, cache: Path, since: float | None) -> Iterator[Inventory]:
    """See ``registry.CACHES``."""
    folder = cache / "local"
    yield Inventory(things=[*layers(folder, since), *half_made(folder, unlink)])


def layers(folder: Path, since: float | None = None) -> Iterator[Kept]:
    """The built tasks in a folder."""
    for path in sorted(folder.glob("*.tar")):
        if _LAYER.fullmatch(path.name):
            yield from kept("task layers", path, unlink, since=since, built=True)
