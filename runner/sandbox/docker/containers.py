"""What our containers look like, and how long they live: limits, mounts, creation."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runner.domain.errors import EngineError
from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import labels
from runner.sandbox.docker.removal import remove, remove_behind, remove_left, remove_or_leave
from runner.schema import Sandbox as Settings

if TYPE_CHECKING:
    from docker.models.containers import Container

LIFETIME = 6 * 3600
"""Seconds after which a forgotten container ends by itself."""
ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"]
"""All that the sandbox's own root may do: read and repair files, become the agent for the tests' children."""
BUILD_MEMORY_MB, BUILD_PIDS = 4096, 2048
_OWN_OPTIONS = ("command", "entrypoint", "user", "labels")
"""What is the container's own; its other options are its host's."""
PODMAN_ULIMITS = {"nofile": 1024, "nproc": 16384}


def episode_options(engine: Engine, settings: Settings) -> dict[str, Any]:
    """Limits of an agent's container, for ``containers.create``."""
    options: dict[str, Any] = {
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "cap_add": ROOT_CAPABILITIES,
        "security_opt": ["no-new-privileges"],
        "tmpfs": {"/run/endless": "size=64m,mode=0700"},  # for the grader: root's alone, and no agent can fill it
        "mem_limit": f"{settings.memory_mb}m",
        "memswap_limit": f"{settings.memory_mb}m",
        "pids_limit": settings.pids,
        "nano_cpus": int(settings.cpus * 1e9),
    }
    return options | _engine_options(engine)


def build_options(engine: Engine, settings: Settings) -> dict[str, Any]:
    """Limits of a build's container: roomy ones, with the engine's ordinary capabilities, for package managers."""
    memory = max(settings.memory_mb, BUILD_MEMORY_MB)
    options: dict[str, Any] = {"mem_limit": f"{memory}m", "pids_limit": max(settings.pids, BUILD_PIDS)}
    if settings.build_network is not None:
        options["network_mode"] = settings.build_network
    return options | _engine_options(engine)


def _engine_options(engine: Engine) -> dict[str, Any]:
    """Docker starts an init that reaps orphans. Podman often lacks one, so there bash does it; and Podman tries to
    raise limits that it may not raise, unless told others. (The kernel counts ``nproc`` over all of a user's
    sandboxes, so it is no substitute for ``pids_limit``.)"""
    if not engine.podman:
        return {"init": True, "entrypoint": ["sleep"], "command": [str(LIFETIME)]}
    from docker.types import Ulimit

    ulimits = [Ulimit(name=name, soft=value, hard=value) for name, value in PODMAN_ULIMITS.items()]
    return {"entrypoint": ["bash"], "command": ["-c", f"sleep {LIFETIME} & wait $!"], "ulimits": ulimits}


class Configs:
    """What each image says about its containers (variables, working folder): asked once, of its first container."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, Mapping[str, Any]] = {}

    def of(self, image: str, container: "Container") -> Mapping[str, Any]:
        """The configuration of a container of this image. Raises EngineError."""
        if image not in self._known:
            with self._engine.trouble("look at a container"):
                self._known[image] = self._engine.client.api.inspect_container(str(container.id))["Config"]
        return self._known[image]

    def forget(self, image: str) -> None:
        """The image is gone."""
        self._known.pop(image, None)


@contextmanager
def created(engine: Engine, image: str, run: str, **options: Any) -> Iterator["Container"]:
    """A container of ours, not started yet, gone afterwards with its anonymous volumes. Raises EngineError.

    Where the engine fails at removing it, that must not hide what happened inside: the next one tries again, and what
    is there at the end is left for ``reap``.
    """
    with engine.trouble("create a container"):
        container = _create(engine, image, {"command": ["true"], "user": "0:0", "labels": labels(run)} | options)
    way = remove
    try:
        remove_behind(engine)
        yield container
    except EngineError:
        way = remove_left
        raise
    finally:
        remove_or_leave(engine, str(container.id), way)


def _create(engine: Engine, image: str, options: Mapping[str, Any]) -> "Container":
    """What the SDK's ``containers.create`` does, in one request: it would ask for the new container's state as well."""
    client = engine.client
    host = client.api.create_host_config(**{key: value for key, value in options.items() if key not in _OWN_OPTIONS})
    own = {key: value for key, value in options.items() if key in _OWN_OPTIONS}
    created = client.api.create_container(image, host_config=host, **own)
    return client.containers.prepare_model({"Id": created["Id"]})
