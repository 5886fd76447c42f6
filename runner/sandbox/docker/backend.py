"""The Docker backend: images, containers and their limits behind ``base.Backend``."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.sandbox.advice import UNSTEADY
from runner.sandbox.base import BuildFailure, Image, Probe
from runner.sandbox.docker import containers, removal
from runner.sandbox.docker.engine import Engine, connect, describe, passes
from runner.sandbox.docker.grader import MOUNT, GraderVolume
from runner.sandbox.docker.image_cache import ImageCache
from runner.sandbox.docker.images import Images
from runner.sandbox.docker.sandbox import DockerSandbox
from runner.sandbox.docker.uses import Uses
from runner.sandbox.lease import Lease
from runner.sandbox.starting import Starter, at_once
from runner.sandbox.trim import Trimmer
from runner.schema import Sandbox as Settings

log = logging.getLogger(__name__)

PROBE_SECONDS = 5.0


class DockerBackend:
    """See ``base.Backend``. Safe to use from many threads; ``sandbox.concurrency`` of them work at once."""

    name = "docker"
    grader = Path(MOUNT)

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        """``cache`` is a folder of this machine for what is made once. Connects at first use only."""
        self._config, self._run = config, run_label
        self._engine = Engine(config.address, connections=4 * config.concurrency + 8, at_once=at_once(config))
        self._lease = Lease(cache)
        uses = Uses.below(cache)
        self._trimmer = Trimmer(config.cache_gb, ImageCache(self._engine, uses).list)
        self._images = Images(self._engine, config, run_label, uses, self._trimmer.built)
        self._volume = GraderVolume(self._engine, cache, run_label)
        self._configs = containers.Configs(self._engine)
        self._starter = Starter(config, passes)
        self._seen: set[Environment] = set()

    def probe(self) -> Probe:
        """See ``base.Backend.probe``; answers within seconds."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        address = self._engine.address
        try:
            client = connect(address, PROBE_SECONDS)
            try:
                version, info = client.version(), client.info()
            finally:
                client.close()
        except (DockerException, RequestException, OSError, ValueError) as error:
            detail = describe("be reached", address, error)
            return Probe(ok=False, detail=detail, remedy="Start Docker or Podman, or use `sandbox=local`.")
        product = (version.get("Platform") or {}).get("Name") or "Docker"
        name = "Podman" if "podman" in str(version.get("Components", "")).lower() else product.split(" Engine")[0]
        return Probe(ok=True, detail=f"{name} {version.get('Version', '?')} at {address}", limits=_limits(info))

    def build(self, environment: Environment, *, timeout: float) -> Image | BuildFailure:
        """See ``base.Backend.build``. Services are tried once, so that their failure is the environment's."""
        self._lease.take()
        tag = self._images.tag(environment)
        image = Image(reference=tag, environment=environment)
        if self._images.found(tag) and self._proven(environment):
            return image
        with self._starter.building(tag):
            if not self._images.found(tag) and (failure := self._images.build(tag, environment, timeout)):
                return failure
            return self._try_services(image) or image

    @contextmanager
    def start(self, image: Image) -> Iterator[DockerSandbox]:
        """See ``base.Backend.start``."""
        # Services start in the slot: an episode's world must not age by how long its turn took to come.
        ahead = None if image.environment.has_services else DockerSandbox.open_shell
        with self._starter.opened(lambda: self._started(image), ahead) as sandbox:
            if failure := _serve(sandbox, image):
                raise EngineError(
                    f"The task's services started when it was built, but not now: {failure.log}. {UNSTEADY}"
                )
            yield sandbox

    def stop(self) -> None:
        """See ``base.Backend.stop``."""
        self._starter.stop()

    def close(self) -> None:
        """See ``base.Backend.close``. An engine that is gone keeps its containers until a later run reaps them."""
        self.stop()
        self._trimmer.close()
        self._lease.release()
        if not self._engine.connected:
            return
        try:
            removal.remove_own(self._engine)
        except EngineError as error:
            log.warning("containers may have stayed behind, for a later run to remove: %s", str(error))
        self._engine.close()

    def reap(self) -> int:
        """See ``base.Backend.reap``."""
        return removal.reap(self._engine)

    def remove_image(self, image: Image) -> None:
        """See ``base.Backend.remove_image``."""
        self._images.remove(image.reference)
        self._configs.forget(image.reference)

    @contextmanager
    def _started(self, image: Image) -> Iterator[DockerSandbox]:
        options = containers.episode_options(self._engine, self._config)
        options["mounts"] = self._volume.mounts(image.reference)
        with (
            self._volume.watched(),
            containers.created(self._engine, image.reference, self._run, **options) as container,
        ):
            with self._engine.trouble("start a container"):
                container.start()
            config = self._configs.of(image.reference, container)
            sandbox = DockerSandbox(self._engine, container, self._config.output_bytes, config)
            try:
                yield sandbox
            finally:
                sandbox.close()

    def _proven(self, environment: Environment) -> bool:
        """There are no services, or this process has seen them start."""
        return not environment.has_services or environment in self._seen

    def _try_services(self, image: Image) -> BuildFailure | None:
        if self._proven(image.environment):
            return None
        with self._started(image) as sandbox:
            failure = _serve(sandbox, image)
        if failure is None:
            self._seen.add(image.environment)
        return failure


def _serve(sandbox: DockerSandbox, image: Image) -> BuildFailure | None:
    return sandbox.serve(image.environment) if image.environment.has_services else None


def _limits(info: dict[str, Any]) -> tuple[str, ...]:
    """What this engine does not enforce."""
    supported = {"MemoryLimit": "memory", "PidsLimit": "the number of processes", "CpuCfsQuota": "processor time"}
    missing = [f"{what} is not limited by this engine" for key, what in supported.items() if info.get(key) is False]
    return (*missing, "disk space is not limited", "the kernel is shared with this machine")
