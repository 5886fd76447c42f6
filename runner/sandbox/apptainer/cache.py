"""What the Apptainer backend keeps: base images, the layers of tasks, and our own few modules for the inside."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.sandbox.apptainer.machine import remove
from runner.sandbox.cache import Inventory, Kept
from runner.sandbox.disk import half_made, kept, unlink
from runner.sandbox.local.cache import layers
from runner.schema import Sandbox as Settings


@contextmanager
def inventory(settings: Settings, cache: Path, since: float | None) -> Iterator[Inventory]:
    """See ``registry.CACHES``."""
    folder = cache / "apptainer"
    litter = [*half_made(folder, unlink), *half_made(folder / "base", remove), *half_made(folder / "code", remove)]
    yield Inventory(things=[*layers(folder, since), *_bases(folder / "base", since), *_code(folder, since), *litter])


def _bases(folder: Path, since: float | None) -> Iterator[Kept]:
    for mark in sorted(folder.glob("*.lock")):
        for path in (mark.with_suffix(""), mark.with_suffix(".sif")):
            yield from kept("base images", path, remove, since=since, mark=mark)


def _code(folder: Path, since: float | None) -> Iterator[Kept]:
    for path in sorted((folder / "code").glob("*")):
        if path.suffix != ".partial":
            yield from kept("programs for the inside", path, shutil.rmtree, since=since)
