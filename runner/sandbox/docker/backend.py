"""The Docker backend: images, containers and their limits behind ``base.Backend``."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.sandbox.base import BuildFailure, Image, Probe
from runner.sandbox.docker import containers
from runner.sandbox.docker.engine import Engine, connect, describe
from runner.sandbox.docker.grader import MOUNT, GraderVolume
from runner.sandbox.docker.images import Images
from runner.sandbox.docker.sandbox import DockerSandbox
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
        self._engine = Engine(config.address, connections=4 * config.concurrency + 8)
        self._images = Images(self._engine, config, run_label)
        self._volume = GraderVolume(self._engine, cache, run_label)
        self._slots = threading.BoundedSemaphore(config.concurrency)

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
        with self._slots:
            built = self._images.build(environment, timeout)
            if isinstance(built, BuildFailure):
                return built
            image = Image(reference=built, environment=environment)
            return self._try_services(image) or image

    @contextmanager
    def start(self, image: Image) -> Iterator[DockerSandbox]:
        """See ``base.Backend.start``."""
        with self._slots, self._started(image) as sandbox:
            if failure := _serve(sandbox, image):
                raise EngineError(f"The task's services started when it was built, but not now: {failure.log}")
            yield sandbox

    def close(self) -> None:
        """See ``base.Backend.close``. An engine that is gone keeps its containers until a later run reaps them."""
        if not self._engine.connected:
            return
        try:
            containers.remove_own(self._engine)
        except EngineError as error:
            log.warning("containers may have stayed behind, for a later run to remove: %s", str(error))
        self._engine.close()

    def reap(self) -> int:
        """See ``base.Backend.reap``."""
        return containers.reap(self._engine)

    def remove_image(self, image: Image) -> None:
        """See ``base.Backend.remove_image``."""
        self._images.remove(image.reference)

    @contextmanager
    def _started(self, image: Image) -> Iterator[DockerSandbox]:
        options = containers.episode_options(self._engine, self._config)
        options["mounts"] = self._volume.mounts(image.reference)
        with containers.created(self._engine, image.reference, self._run, **options) as container:
            with self._engine.trouble("start a container"):
                container.start()
            sandbox = DockerSandbox(self._engine, container, self._config.output_bytes)
            try:
                yield sandbox
            finally:
                sandbox.close()

    def _try_services(self, image: Image) -> BuildFailure | None:
        if not image.environment.has_services:
            return None
        with self._started(image) as sandbox:
            return _serve(sandbox, image)


def _serve(sandbox: DockerSandbox, image: Image) -> BuildFailure | None:
    return sandbox.serve(image.environment) if image.environment.has_services else None


def _limits(info: dict[str, Any]) -> tuple[str, ...]:
    """What this engine does not enforce."""
    supported = {"MemoryLimit": "memory", "PidsLimit": "the number of processes", "CpuCfsQuota": "processor time"}
    missing = [f"{what} is not limited by this engine" for key, what in supported.items() if info.get(key) is False]
    return (*missing, "disk space is not limited", "the kernel is shared with this machine")
