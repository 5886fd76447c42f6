"""What a run must not leave behind: processes, mounts, files, containers and whatever else an engine has."""

import contextlib
import ctypes
import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from support.daemon import Daemon
from support.endless import Workplace

from runner.sandbox.docker.labels import OWNER, RUN, is_orphan

SECONDS = 20.0
"""How long the kernel, or an engine, may take to end what it was told to end."""
_PR_SET_CHILD_SUBREAPER = 36


def soon_none(left: Callable[[], list[str]]) -> list[str]:
    """What is left once it had time to go."""
    deadline = time.monotonic() + SECONDS
    while (found := left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def processes_of(folder: Path) -> list[str]:
    """Processes that work in the folder or name it, once they had time to end."""
    return soon_none(lambda: _now(folder))


def _now(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line or str(process.info["cwd"] or "").startswith(str(folder)):
            found.append(line)
    return found


class Family:
    """Every process that came from the test since ``adopting`` began, however its parents ended."""

    def __init__(self) -> None:
        self._before = {child.pid for child in _children()}

    def left(self, but: Callable[[], Collection[int]] = tuple) -> list[str]:
        """Those that are still there, once they had time to end."""
        return soon_none(lambda: self._now(but()))

    def wait(self) -> None:
        """Wait for those that have ended."""
        self._now(())

    def _now(self, but: Collection[int]) -> list[str]:
        found = []
        for child in _children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.pid in self._before or child.pid in but:
                    continue
                if child.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(child.cmdline()))
                elif child.ppid() == os.getpid():  # an adopted one, which nobody else waits for
                    with contextlib.suppress(ChildProcessError):
                        os.waitpid(child.pid, os.WNOHANG)
        return found


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@contextmanager
def adopting() -> Iterator[Family]:
    """Meanwhile, orphans of what the test has started become its children, so that none can hide."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    family = Family()
    try:
        yield family
    finally:
        family.wait()
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def mounts_of(folder: Path) -> list[str]:
    """What is mounted below the folder, or from there."""
    return [line for line in Path("/proc/self/mounts").read_text("utf-8").splitlines() if str(folder) in line]


def files_of(place: Workplace) -> list[str]:
    """What a run writes under a name of its own until it is whole, leases of dead runs, and its temporary files (where
    ``TMPDIR`` is in the workplace's environment, and holds nothing else)."""
    outputs = place.folder / "outputs"
    folders = (outputs, (outputs / "cache").resolve())
    found = [path for folder in folders for path in folder.rglob("*.partial*")]
    found += [path for folder in folders for path in folder.rglob("*.lease") if _is_free(path)]
    temporary = place.environment.get("TMPDIR")
    return [str(path) for path in (*found, *(Path(temporary).iterdir() if temporary else ()))]


def _is_free(lease: Path) -> bool:
    with lease.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def containers_of(place: Workplace, run: str = "") -> list[str]:
    """The containers of the workplace's only run, or of the one named, whose process has ended; none where it does not
    use an engine."""
    address = next((word.partition("=")[2] for word in place.sandbox if word.startswith("sandbox.address=")), None)
    if address is None:
        return []
    import docker

    run = run or next((place.folder / "outputs" / "runs").iterdir()).name
    with contextlib.closing(docker.DockerClient(base_url=address)) as client:
        found = client.containers.list(all=True, filters={"label": f"{RUN}={run}"})
        return [container.name for container in found if is_orphan(container.labels.get(OWNER, ""))]


def left_at(daemon: Daemon) -> list[str]:
    """All that is at a daemon beside images and the grader's volume, ours by its label or not, once it had time to
    go."""
    return soon_none(lambda: [*_listed(daemon.address), *daemon.mounts(), *daemon.processes(), *daemon.cgroups()])


def _listed(address: str) -> list[str]:
    import docker

    with contextlib.closing(docker.DockerClient(address)) as client:
        found = [f"container {c.name} {c.status} {c.labels}" for c in client.containers.list(all=True)]
        found += [f"network {n.name}" for n in client.networks.list() if n.name not in ("host", "none", "bridge")]
        volumes = [volume.name for volume in client.volumes.list()]
    return [*found, *(f"volume {name}" for name in volumes if not name.startswith("endless-grader-"))]
