"""The local backend: sandboxes of this machine's own programs, behind ``base.Backend``."""

import contextlib
import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.domain.errors import EndlessError, EngineError, MissingRequirement
from runner.domain.plain import plain
from runner.domain.task import Environment
from runner.sandbox.advice import UNSTEADY
from runner.sandbox.base import BuildFailure, Image, Probe, Role
from runner.sandbox.lease import Lease
from runner.sandbox.local import build
from runner.sandbox.local.cache import layers
from runner.sandbox.local.identity import Identity, find_identity
from runner.sandbox.local.limits import episode_limits, not_enforced, remedy
from runner.sandbox.local.nursery import Nursery, Stage
from runner.sandbox.local.sandbox import LocalSandbox
from runner.sandbox.runtime import ensure_runtime
from runner.sandbox.starting import Starter
from runner.sandbox.trim import Trimmer
from runner.schema import Sandbox as Settings

PROBE_SECONDS = 20.0
_PROCEDURE = "1"
"""Part of every layer's name: raise it when the way layers are made changes."""


class LocalBackend:
    """See ``base.Backend``. Safe to use from many threads; ``sandbox.concurrency`` of them work at once."""

    name = "local"
    grader = Path("/opt/endless-grader")

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        """``cache`` is a folder of this machine for what is made once. ``run_label`` is not needed: nothing that this
        backend starts outlives the process. Starts nothing yet."""
        self._config, self._cache = config, cache
        self._nursery = self._make_nursery()
        self._starter = Starter(config, passes=lambda error: True)  # trying costs little, and no engine says what it is
        self._stages: set[Stage] = set()
        self._layers = cache / self.name
        self._lease = Lease(cache)
        self._trimmer = Trimmer(config.cache_gb, lambda: list(layers(self._layers)))
        self._preparing = threading.Lock()
        self._grader_folder = ""

    def probe(self) -> Probe:
        """See ``base.Backend.probe``: opens a sandbox without a grader and runs a command in it as the agent."""
        if sys.platform != "linux":
            return Probe(ok=False, detail="the local sandbox needs Linux", remedy="Use `sandbox=docker`.")
        try:
            with contextlib.closing(self._make_nursery()) as nursery:  # a backend that is only probed is never closed
                stage = nursery.launch(self._settings(building=False))
                try:
                    said = self._sandbox(stage).exec(["id", "-u"], role=Role.AGENT, timeout=PROBE_SECONDS)
                finally:
                    stage.close()
        except (EndlessError, OSError) as error:
            return Probe(ok=False, detail=str(error), remedy=remedy())
        if said.output.strip() != b"1000":
            return Probe(ok=False, detail=f"the agent is not itself: {said.output!r}", remedy=remedy())
        users = {"root": "as root", "subuid": "with newuidmap", "single": "with a single user"}[self._identity.kind]
        return Probe(ok=True, detail=f"Linux namespaces, {users}", limits=not_enforced(single=self._identity.single))

    def build(self, environment: Environment, *, timeout: float) -> Image | BuildFailure:
        """See ``base.Backend.build``. Services are tried once, so that their failure is the environment's. Raises
        MissingRequirement for an imported task's Docker context."""
        if environment.context is not None:
            raise MissingRequirement(f"{environment.context} has a Dockerfile, which needs `sandbox=docker`")
        layer = self._layers / f"{self._key(environment)}.tar"
        image = Image(reference=str(layer), environment=environment)
        self._lease.take()
        if build.found(layer):
            return image
        with self._starter.building(layer.name):
            if build.found(layer):
                return image
            return self._make_layer(layer, environment.setup, timeout) or self._try_services(image) or image

    @contextmanager
    def start(self, image: Image) -> Iterator[LocalSandbox]:
        """See ``base.Backend.start``."""
        # Services start in the slot: an episode's world must not age by how long its turn took to come.
        ahead = None if image.environment.has_services else LocalSandbox.open_shell
        with self._starter.opened(lambda: self._started(image), ahead) as sandbox:
            if image.environment.has_services and (failure := sandbox.serve(image.environment)):
                raise EngineError(
                    f"The task's services started when it was built, but not now: {failure.log}\n{UNSTEADY}"
                )
            yield sandbox

    def stop(self) -> None:
        """See ``base.Backend.stop``."""
        self._starter.stop()

    def close(self) -> None:
        """See ``base.Backend.close``."""
        self.stop()
        self._trimmer.close()
        for stage in list(self._stages):
            stage.close()
        self._nursery.close()
        self._lease.release()

    def reap(self) -> int:
        """See ``base.Backend.reap``. A sandbox ends with its owner, so there is never one to remove; half-written
        layers of dead processes are."""
        build.remove_abandoned(self._layers)
        return 0

    def remove_image(self, image: Image) -> None:
        """See ``base.Backend.remove_image``."""
        with contextlib.suppress(OSError):
            Path(image.reference).unlink()

    def _make_layer(self, layer: Path, setup: str, timeout: float) -> BuildFailure | None:
        with self._stage(building=True, network=self._network()) as stage:
            failure = build.run_setup(stage, setup, timeout, self._config, single=self._identity.single)
            if failure is not None:
                return failure
            with build.new_layer(layer) as descriptor:
                stage.pack(descriptor)
        self._trimmer.built()
        return None

    def _try_services(self, image: Image) -> BuildFailure | None:
        """Only a layer whose services start is kept."""
        if not image.environment.has_services:
            return None
        with self._started(image) as sandbox:
            failure = sandbox.serve(image.environment)
        if failure is not None:
            self.remove_image(image)
        return failure

    @contextmanager
    def _started(self, image: Image) -> Iterator[LocalSandbox]:
        try:
            layer = os.open(image.reference, os.O_RDONLY)
        except OSError as error:
            raise EngineError(
                f"The built environment {image.reference} is gone: {error.strerror}. Run again: it is built anew."
            ) from error
        try:
            with self._stage(building=False, layer=layer) as stage:
                sandbox = self._sandbox(stage)
                try:
                    yield sandbox
                finally:
                    sandbox.close()
        finally:
            os.close(layer)

    def _settings(self, *, building: bool, network: bool = False, grader: str = "") -> dict[str, Any]:
        """What ``inside/tree.py`` and ``inside/warden.py`` go by."""
        return {
            "root": self._root(),
            "grader": grader,
            "memory_mb": self._config.memory_mb,
            "network": network,
            "building": building,
            "single": self._identity.single,
        }

    @property
    def _identity(self) -> Identity:
        return self._nursery.identity

    def _make_nursery(self) -> Nursery:
        """Starts nothing yet."""
        return Nursery(find_identity())

    def _root(self) -> str:
        """The folder that sandboxes are made over, where the nursery sees it."""
        return self._config.root

    def _network(self) -> bool:
        """Whether builds have this machine's network."""
        return self._config.build_network == "host"

    def _origin(self) -> str:
        """Names what ``_root`` holds."""
        return self._config.root

    @contextmanager
    def _stage(self, *, building: bool, network: bool = False, layer: int | None = None) -> Iterator[Stage]:
        settings = self._settings(building=building, network=network, grader=self._runtime())
        stage = self._nursery.launch(settings, layer)
        self._stages.add(stage)
        try:
            yield stage
        finally:
            stage.close()
            self._stages.discard(stage)

    def _runtime(self) -> str:
        """The grader's Python, where the nursery sees it; looked for once."""
        with self._preparing:
            if not self._grader_folder:
                self._grader_folder = str(ensure_runtime(self._cache).resolve())
            return self._grader_folder

    def _sandbox(self, stage: Stage) -> LocalSandbox:
        return LocalSandbox(stage, limits=episode_limits(self._config), output_bytes=self._config.output_bytes)

    def _key(self, environment: Environment) -> str:
        """Names a layer by all that goes into it."""
        parts = [_PROCEDURE, environment.setup, environment.start, self._origin(), self._identity.kind]
        parts.append(str(self._config.build_network))
        if environment.health is not None:  # a layer is kept only if its services are healthy
            parts.append(json.dumps(plain(environment.health)))
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
