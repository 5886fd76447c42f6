"""Our images in a container engine, as things that may be removed.

Only what carries our label and is called as we call ours counts: the label is inherited by whatever others build on top
of an image.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from runner.sandbox.cache import Kept
from runner.sandbox.disk import IN_USE
from runner.sandbox.docker import images, labels, removal
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.uses import Uses

Found = Mapping[str, Any]
"""One entry of an engine's answer."""
_OURS = re.compile(r"(?:localhost/)?(endless-(base|task):\S+)")
_KINDS = {"base": "base images", "task": "task images"}
_IDENTITY = ("Created", "CreatedBy", "Comment", "Size")
"""What tells a layer: Docker knows their ids, but only says them of layers that have been images, too."""
_IN_CONTAINER = "a container uses it"


class ImageCache:
    """Remembers the layers of images, which never change, so that looking again is quick."""

    def __init__(self, engine: Engine, uses: Uses, only: Mapping[str, str] | None = None) -> None:
        """``only``: labels that images must have besides ours."""
        self._engine, self._uses = engine, uses
        self._filter = labels.label_filter(labels.IMAGE, only)
        self._layers: dict[str, dict[str, int]] = {}

    def list(self, since: float | None = None) -> list[Kept]:
        """Our images. Held is what has a container, and what a run may use that was there at ``since``, or that has a
        container of its own. What is in others' images, too, takes up no disk of ours. Raises EngineError."""
        with self._engine.trouble("list images"):
            ours = self._engine.client.api.images(filters=self._filter)
            every = self._engine.client.api.images()
        why_held = self._holders(since)
        names = {str(image["Id"]) for image in ours}
        self._layers = {str(image["Id"]): self._look(str(image["Id"])) for image in every}
        others = {part for name, parts in self._layers.items() if name not in names for part in parts}
        return [thing for image in ours for thing in self._things(image, why_held, others)]

    def _holders(self, since: float | None) -> Callable[[Found, float], str]:
        """A function of an image and its last use: why it must stay."""
        alive = removal.alive(self._engine)
        busy = {str(container.get("ImageID")) for container in alive}
        runs = {run for container in alive if (run := label(container, labels.RUN))}

        def why_held(image: Found, used: float) -> str:
            if str(image["Id"]) in busy:
                return _IN_CONTAINER
            working = (since is not None and used >= since) or label(image, labels.RUN) in runs
            return IN_USE if working else ""

        return why_held

    def _things(self, image: Found, why_held: Callable[[Found, float], str], others: set[str]) -> Iterator[Kept]:
        name, created = str(image["Id"]), float(image["Created"])
        parts = {part: size for part, size in self._look(name).items() if part not in others}
        tags = [tag for tag in image.get("RepoTags") or () if not tag.startswith("<none>")]
        for tag, kind in ((found[1], found[2]) for found in map(_OURS.fullmatch, tags) if found):
            used = max(self._uses.last(tag), created)
            yield Kept(
                kind=_KINDS[kind],
                name=tag,
                parts=parts,
                used=used,
                remove=partial(self._remove, tag, used),
                built=kind == "task",
                held=why_held(image, used),
            )
        if not tags:
            remove = partial(images.remove, self._engine, name)
            held = why_held(image, created)
            yield Kept(
                kind="replaced images", name=name, parts=parts, used=created, remove=remove, litter=True, held=held
            )

    def _remove(self, tag: str, used: float) -> bool:
        """Remove an image, unless it was used again since it was listed."""
        if self._uses.last(tag) > used or not images.remove(self._engine, tag):
            return False
        self._uses.forget(tag)
        return True

    def _look(self, image: str) -> dict[str, int]:
        """An image's layers, none where it has gone meanwhile."""
        from docker.errors import NotFound

        if image not in self._layers:
            api: Any = self._engine.client.api
            with self._engine.trouble("look at an image"):
                try:
                    self._layers[image] = layers(api.history(image))
                except NotFound:
                    return {}
        return self._layers[image]


def layers(history: list[dict[str, Any]]) -> dict[str, int]:
    """From an image's history, the newest first: name -> bytes of its layers. A layer is named by how it and all below
    it came about, so that images which share it name it alike."""
    found, below = {}, hashlib.sha256()
    for step in reversed(history):
        below.update(repr([step.get(key) for key in _IDENTITY]).encode())
        if step["Size"] > 0:
            found[below.hexdigest()] = int(step["Size"])
    return found


def label(thing: Found, name: str) -> str:
    """A label of an image, container or volume; empty when it has none of that name."""
    return str((thing.get("Labels") or {}).get(name, ""))
