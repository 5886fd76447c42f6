"""What our containers look like: limits, labels, mounts, and whose they are."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

import psutil

from runner.domain.errors import EngineError
from runner.sandbox.docker.engine import Engine
from runner.schema import Sandbox as Settings

if TYPE_CHECKING:
    from docker.models.containers import Container

log = logging.getLogger(__name__)

MARK, RUN, OWNER = "endless", "endless.run", "endless.owner"
LIVE, IMAGE, VOLUME = "1", "image", "kept"
"""Values of ``MARK``: a container that may be reaped; an image (whose labels containers inherit); a volume."""

LIFETIME = 6 * 3600
"""Seconds after which a forgotten container ends by itself."""
ROOT_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL"]
"""All that the sandbox's own root may do: read and repair files, become the agent for the tests' children."""
HALF_STARTED_SECONDS = 20.0
"""containerd needs about five to clear away what a daemon was starting when it died."""
SETTLE_SECONDS = 1.0
"""Between two looks at a container that was started in order to be removed."""
STOP_SIGNAL = "SIGKILL"
"""The first signal is the last. Docker asks politely and then kills; where the process has ended in between, it notes
to look again ten seconds later, and then takes a container that was restarted meanwhile for one that has ended
(``killWithSignal`` in its daemon/kill.go): episodes lose their programs, and the container outlives its removal."""
BUILD_MEMORY_MB, BUILD_PIDS = 4096, 2048
REMOVERS = 16
"""Threads that remove what was left; the engine's own limit (``Engine.turn``) may be lower."""
_OWN_OPTIONS = ("command", "entrypoint", "user", "labels", "stop_signal")
"""What is the container's own; its other options are its host's."""
PODMAN_ULIMITS = {"nofile": 1024, "nproc": 16384}


def owner() -> str:
    """This process, in words that no other process shares, even after its id is used again."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def is_orphan(label: str) -> bool:
    """The label names a process of this machine that is dead. False for other machines and unreadable labels."""
    try:
        host, pid, started = label.rsplit(":", 2)
        if host != socket.gethostname():
            return False
        return abs(psutil.Process(int(pid)).create_time() - float(started)) > 2.0
    except ValueError:
        return False
    except psutil.NoSuchProcess:
        return True


def labels(run: str) -> dict[str, str]:
    """What marks a container as ours, alive and this process's."""
    return {MARK: LIVE, RUN: run, OWNER: owner()}


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
        own = {"command": ["true"], "user": "0:0", "labels": labels(run), "stop_signal": STOP_SIGNAL}
        container = _create(engine, image, own | options)
    removal = remove
    try:
        _remove_behind(engine)
        yield container
    except EngineError:
        removal = remove_left
        raise
    finally:
        _remove_or_leave(engine, str(container.id), removal)


def _remove_or_leave(engine: Engine, container: str, removal: Callable[[Engine, str], None]) -> bool:
    try:
        removal(engine, container)
    except EngineError as error:
        log.debug("a container stays behind for now: %s", str(error))
        engine.behind.append(container)
        return False
    return True


def _remove_behind(engine: Engine) -> None:
    """Remove what could not be removed in its time, now that the engine works."""
    with contextlib.suppress(IndexError):  # there is none, or another thread was faster
        while _remove_or_leave(engine, engine.behind.popleft(), remove_left):
            pass


def _create(engine: Engine, image: str, options: Mapping[str, Any]) -> "Container":
    """What the SDK's ``containers.create`` does, in one request: it would ask for the new container's state as well."""
    client = engine.client
    host = client.api.create_host_config(**{key: value for key, value in options.items() if key not in _OWN_OPTIONS})
    own = {key: value for key, value in options.items() if key in _OWN_OPTIONS}
    created = client.api.create_container(image, host_config=host, **own)
    return client.containers.prepare_model({"Id": created["Id"]})


def remove(engine: Engine, container: str) -> None:
    """Remove a container that may be gone already. Raises EngineError when it stays."""
    from docker.errors import APIError, NotFound

    with engine.turn(), engine.trouble("remove a container"):
        try:
            engine.client.api.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            if error.status_code != 409:  # 409: its removal is under way already
                raise


def remove_left(engine: Engine, container: str) -> None:
    """Remove a container whose daemon or owner may have died while it was being started. There may be processes of it
    then, and a mount, that the next daemon knows nothing of: only another start finds and ends them, be it that it
    fails. Raises EngineError when the container stays."""
    deadline = time.monotonic() + HALF_STARTED_SECONDS
    while (again := _start_again(engine, container)) is _Start.LATER and time.monotonic() < deadline:
        time.sleep(1.0)
    if again is _Start.DONE:
        _settle(engine, container)
    remove(engine, container)


class _Start(Enum):
    """What became of another start."""

    NEEDLESS = "it runs, or cannot run any more"
    DONE = "it runs again"
    LATER = "containerd has not done with what became of its last start"


def _start_again(engine: Engine, container: str) -> _Start:
    from docker.errors import APIError

    with engine.turn(), engine.trouble("start a container again"):
        try:
            if engine.client.api.inspect_container(container)["State"]["Running"]:
                return _Start.NEEDLESS
            engine.client.api.start(container)
        except APIError as error:
            log.debug("a container that was being started: %s", str(error))
            return _Start.LATER if "file exists" in str(error) else _Start.NEEDLESS
    return _Start.DONE


def _settle(engine: Engine, container: str) -> None:
    """Let the engine hear of all that another start has ended and begun. It takes the end of what was found for the end
    of what was started, for two seconds, and would remove the container without its processes in this time."""
    from docker.errors import APIError

    for _ in range(2):
        time.sleep(SETTLE_SECONDS)
        with engine.trouble("look at a container"):
            try:
                engine.client.api.inspect_container(container)  # waits while the engine deals with an end
            except APIError as error:
                log.debug("a container that was started again: %s", str(error))


def reap(engine: Engine) -> int:
    """Remove our containers whose owner is dead; returns how many. Raises EngineError."""
    found = orphans(engine)
    _remove_all(engine, found)
    return len(found)


def orphans(engine: Engine, only: Mapping[str, str] | None = None) -> list[str]:
    """Our containers whose owner is dead, and that have the labels ``only``. Raises EngineError."""
    return [name for name, found in _ours(engine, only) if is_orphan(found.get(OWNER, ""))]


def alive(engine: Engine) -> list[Mapping[str, Any]]:
    """All containers, ours or not, but those of ours whose owner is dead. Raises EngineError."""
    with engine.trouble("list containers"):
        found = engine.client.api.containers(all=True)
    return [container for container in found if not is_orphan((container.get("Labels") or {}).get(OWNER, ""))]


def label_filter(mark: str, only: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For the engine's lists: what has our mark, and the labels ``only``."""
    return {"label": [f"{name}={value}" for name, value in {MARK: mark, **(only or {})}.items()]}


def remove_own(engine: Engine) -> None:
    """Remove every container this process still has. Raises EngineError."""
    mine = owner()
    _remove_all(engine, [name for name, found in _ours(engine) if found.get(OWNER) == mine])


def _remove_all(engine: Engine, names: Sequence[str]) -> None:
    """There may be hundreds. Raises EngineError when one stays; the others are removed all the same."""
    with ThreadPoolExecutor(REMOVERS, thread_name_prefix="remove") as pool:
        ended = [pool.submit(remove_left, engine, name) for name in names]
    for future in ended:
        future.result()


def _ours(engine: Engine, only: Mapping[str, str] | None = None) -> list[tuple[str, Mapping[str, str]]]:
    with engine.trouble("list containers"):
        found = engine.client.api.containers(all=True, filters=label_filter(LIVE, only))
    return [(str(container["Id"]), container.get("Labels") or {}) for container in found]
