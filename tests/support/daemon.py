"""A Docker daemon of the test's own, to be killed and started again: the shared one is everybody's.

For root alone. It runs the ``dockerd`` of the engine that the tests were given (from that one's mount namespace, so
that an engine in a root file system of its own is found), or else the one on PATH. It has a mount namespace of its own,
with its own containerd, data, sockets, control groups and /run, and no networks. Nothing of it is left at the end.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

SECONDS = 60.0
SLOW = {"slow-before": "sleep 3; exec runc", "slow-after": "runc"}
"""Runtimes of containers that take seconds to create one, before or after it is there, so that a daemon can die
meanwhile: name -> what stands for ``runc``."""
_SLOW_RUNC = """#!/bin/sh
case " $* " in *" create "*) ;; *) exec runc "$@" ;; esac
{runc} "$@"; code=$?; sleep 3; exit $code
"""
_CGROUPS = Path("/sys/fs/cgroup")
_OWN_PLACE = "mount -t tmpfs run /run && echo made && exec sleep infinity"
_CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/containerd.sock"
"""


class Daemon:
    """See ``private_daemon``, which makes it."""

    def __init__(self, folder: Path, prefix: list[str]) -> None:
        """``prefix`` is a command under which the engine's programs are found. Starts none yet. Raises OSError."""
        self.address = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        argv = [*_with_us(), *prefix, "unshare", "--mount", "--propagation", "private", "sh", "-c", _OWN_PLACE]
        self._place = subprocess.Popen(argv, stdout=subprocess.PIPE)
        assert self._place.stdout is not None
        with self._place.stdout as said:
            if said.readline() != b"made\n":
                raise OSError("a mount namespace for a daemon could not be made")
        for name, runc in SLOW.items():
            (folder / name).write_text(_SLOW_RUNC.format(runc=runc), encoding="utf-8")
            (folder / name).chmod(0o755)
        (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder), encoding="utf-8")

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        folder = self._folder
        if "containerd" not in self._programs:
            self._run("containerd", "--config", f"{folder}/containerd.toml")
            self._await((folder / "containerd.sock").exists)
        self._run(
            *("dockerd", "--host", self.address, "--containerd", f"{folder}/containerd.sock"),
            *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/docker.pid"),
            *("--iptables=false", "--ip6tables=false", "--ip-masq=false", "--bridge=none"),
            *(word for name in SLOW for word in ("--add-runtime", f"{name}={folder}/{name}")),
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{folder.name}"),
        )
        self._await(self._answers)

    def kill(self) -> None:
        """SIGKILL. Containers live on in their shims; the next daemon ends them before it answers."""
        self._programs["dockerd"].kill()
        self._programs["dockerd"].wait()
        # Beside other tests its number is soon another's, whom the next daemon would take for it.
        (self._folder / "docker.pid").unlink(missing_ok=True)

    def mounts(self) -> list[str]:
        """What is mounted for containers: their file systems, their volumes.

        Left out are the file systems of containers that were never written down. A daemon that dies while it creates a
        container, whoever asked for it, leaves them mounted; nobody was told the container's name, and no request
        reaches it.
        """
        points = self.mounted()
        # BuildKit's are not ours to remove: what it built when its daemon died stays mounted.
        lost = (f"{self._folder}/exec/netns/default", f"{self._folder}/data/buildkit/", *self._half_created(points))
        return [point for point in points if point.startswith(f"{self._folder}/data/") and not point.startswith(lost)]

    def mounted(self) -> list[str]:
        """All that is mounted where it is."""
        lines = Path("/proc", str(self._place.pid), "mounts").read_text(encoding="utf-8").splitlines()
        return [line.split()[1] for line in lines]

    def processes(self) -> list[str]:
        """Whatever runs in containers, and the shims that hold it.

        Left out is a shim that holds nothing, and of which containerd knows no task (nor Docker a container: those are
        looked for, too). A daemon that dies while it removes or starts a container leaves one, whoever asked for it:
        containerd drops what it was doing half-way (its issue 8981), and no request reaches the shim from then on.
        """
        others = [pid for pid in self.members() if pid not in self._own()]
        known = self._tasks() if any(map(_is_empty_shim, others)) else ""
        return [_command(pid) for pid in others if not _is_empty_shim(pid) or _container(pid) in known]

    def cgroups(self) -> list[str]:
        """The control groups of containers."""
        name = f"{self._folder.name}/{'[0-9a-f]' * 64}"
        return [str(path) for path in (*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}"))]

    def invent_end(self, container: str) -> None:
        """Tell Docker that the container's process has ended, though it has not. Raises CalledProcessError."""
        ended = _field(1, container) + _field(2, container) + b"\x20\x7f"  # id twice, exit status 127
        event = _field(1, b"containerd.events.TaskExit") + _field(2, ended)
        self._containerd("containerd", "publish", "--namespace", "moby", "--topic", "/tasks/exit", told=event)

    def log(self, last: int = 3000) -> str:
        """The last characters that its programs wrote."""
        return "".join(path.read_text("utf-8", "replace")[-last:] for path in self._folder.glob("*.log"))

    def close(self) -> None:
        """End all of it. Idempotent."""
        for name in ("dockerd", "containerd"):
            if program := self._programs.pop(name, None):
                program.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(20)
        while members := self.members():
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._place.poll()
            time.sleep(0.05)
        self._place.wait()
        groups = [*_CGROUPS.glob(f"{self._folder.name}/**/"), *_CGROUPS.glob(f"*/{self._folder.name}/**/")]
        for path in sorted(groups, reverse=True):
            _remove_group(path)

    def _run(self, name: str, *arguments: str) -> None:
        inside = [*_with_us(), "nsenter", "--mount", "--target", str(self._place.pid), "--"]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._programs[name] = subprocess.Popen(
                [*inside, name, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _await(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            ended = [name for name, program in self._programs.items() if program.poll() is not None]
            assert not ended, f"{ended} ended: {self.log()}"
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as attempt, contextlib.suppress(OSError):
            attempt.settimeout(SECONDS)
            attempt.connect(self.address.removeprefix("unix://"))
            attempt.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return attempt.recv(64).startswith(b"HTTP/1.0 200")
        return False

    def _tasks(self) -> str:
        """The containers that containerd runs. Raises CalledProcessError."""
        return self._containerd("ctr", "--namespace", "moby", "tasks", "list", "--quiet")

    def _containerd(self, program: str, *words: str, told: bytes = b"") -> str:
        inside = ["nsenter", "--mount", "--target", str(self._place.pid), "--", program]
        argv = [*inside, "--address", f"{self._folder}/containerd.sock", *words]
        return subprocess.run(argv, input=told, capture_output=True, check=True).stdout.decode()

    def _half_created(self, points: Iterable[str]) -> Iterator[str]:
        """The mounts among them that belong to layers of containers which Docker never wrote down. The first layer of
        each, ``-init``, is only mounted while its container is created."""
        data = self._folder / "data"
        made = (data / "image" / "overlay2" / "layerdb" / "mounts").glob("*/mount-id")
        known = {path.parent.name for path in (data / "containers").glob("*/config.v2.json")}
        lost = {path.read_text(encoding="utf-8") for path in made if path.parent.name not in known}
        for point in points:
            layer = Path(point).parent.name
            if point == f"{data}/overlay2/{layer}/merged" and (layer in lost or layer.endswith("-init")):
                yield point

    def _own(self) -> set[int]:
        return {self._place.pid, *(program.pid for program in self._programs.values())}

    def members(self) -> list[int]:
        """Processes in its mount namespace (its programs, shims) or its control groups (what runs in containers)."""
        place, group = _namespace(self._place.pid), f"/{self._folder.name}/"
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        own = [pid for pid in pids if (place and _namespace(pid) == place) or group in _read(pid, "cgroup")]
        return [pid for pid in own if _command(pid)]  # a dead one that nobody has waited for yet has none


@contextmanager
def private_daemon(shared: str) -> Iterator[Daemon]:
    """A daemon that answers, and that holds nothing yet. ``shared`` is the address of the engine that the tests use.
    Raises OSError where there cannot be one."""
    prefix = _where(shared)
    folder = Path(tempfile.mkdtemp(prefix="endless-daemon-"))
    try:
        daemon = Daemon(folder, prefix)
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.close()
    finally:
        shutil.rmtree(folder)


def copy_image(name: str, source: str, target: str) -> None:
    """Copy an image from one engine to another."""
    import docker

    with (
        contextlib.closing(docker.DockerClient(source)) as giver,
        contextlib.closing(docker.DockerClient(target)) as to,
    ):
        to.api.load_image(giver.images.get(name).save(named=True))


def _where(shared: str) -> list[str]:
    """A command under which ``dockerd`` is found. Raises OSError."""
    if os.geteuid() != 0:
        raise OSError("a Docker daemon of one's own needs root")
    if not shared.startswith("unix://"):
        raise OSError(f"the engine at {shared} is not on this machine")
    with socket.socket(socket.AF_UNIX) as attempt:
        attempt.connect(shared.removeprefix("unix://"))
        credentials = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, _, _ = struct.unpack("3i", credentials)
    if _read(pid, "comm").strip() == "dockerd":
        return ["nsenter", "--mount", "--target", str(pid), "--"]
    if shutil.which("dockerd") is None:
        raise OSError(f"dockerd is not on PATH, and what answers at {shared} is not dockerd")
    return []


def _with_us() -> tuple[str, ...]:
    """Tests that are killed leave no daemon behind. The kernel means the thread that starts a program: only the main
    one lives as long as we do."""
    main = threading.current_thread() is threading.main_thread()
    return ("setpriv", "--pdeathsig", "KILL") if main else ()


def _remove_group(path: Path) -> None:
    """A control group is busy until the kernel has done with the last process in it. Raises OSError."""
    deadline = time.monotonic() + SECONDS
    while path.exists():
        try:
            path.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _field(number: int, value: str | bytes) -> bytes:
    """A field of a protobuf message: a text of less than 128 bytes, or such a message."""
    data = value.encode() if isinstance(value, str) else value
    length = [len(data)] if len(data) < 128 else [len(data) & 127 | 128, len(data) >> 7]
    return bytes([number << 3 | 2, *length]) + data


def _is_empty_shim(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "containerd-shim" in _command(pid).partition(" ")[0] and not psutil.Process(pid).children()
    return False


def _container(pid: int) -> str:
    """The container of a shim."""
    return _command(pid).partition(" -id ")[2].partition(" ")[0]


def _namespace(pid: int) -> str:
    try:
        return str(Path("/proc", str(pid), "ns", "mnt").readlink())
    except OSError:
        return ""


def _read(pid: int, name: str) -> str:
    try:
        return Path("/proc", str(pid), name).read_text("utf-8", "replace")
    except OSError:
        return ""


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")
