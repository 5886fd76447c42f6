"""Process namespaces inside a sandbox: one for the agent, and a fresh one for each program of the grader.

A space has a first process that does nothing; killing it makes the kernel kill all others in the space. So "every
process of the agent is gone" is one signal, and no fork bomb or daemon gets away. A space also has a mount namespace,
with a /proc that shows its own processes only and a folder for root (/run/endless) that no other space sees.
"""

import contextlib
import os
import resource
import select
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from runner.sandbox.local.inside import kernel, wire

AGENT = 1000
ROOT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31})
"""What root has in containers elsewhere: file owners and modes, others' processes, chroot, low ports; no mounts."""
_GONE_MS = 50_000


class Spaces:
    """All spaces of this sandbox, by the number of their first process."""

    def __init__(self, settings: wire.Message) -> None:
        self._single = bool(settings["single"])
        self._first: dict[int, int] = {}

    def open(self, runner: socket.socket) -> int:
        """Make a space; returns its number. Raises OSError."""
        reader, writer = os.pipe()
        if os.fork() == 0:
            runner.close()
            os.close(reader)
            _make_space(writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            said = answer.read().decode()
        if not said.isdecimal():
            raise OSError(0, said or "a process namespace could not be made")
        number = int(said)
        self._first[number] = os.pidfd_open(number)
        return number

    def close(self, number: int) -> None:
        """End every process of a space, and wait until they are gone. Raises OSError."""
        first = self._first.pop(number)
        try:
            signal.pidfd_send_signal(first, signal.SIGKILL)
            gone = select.poll()
            gone.register(first, select.POLLIN)
            if not gone.poll(_GONE_MS):
                raise OSError(0, "processes of the sandbox cannot be killed")
        finally:
            os.close(first)

    def start(self, request: wire.Message, descriptors: Sequence[int], runner: socket.socket) -> None:
        """Start a program. ``descriptors``: its stdin, its output, and where to report ``started``, then ``exit N``."""
        status = descriptors[2]
        try:
            pid = os.fork()
        except OSError as error:
            os.write(status, f"error {error}\n".encode())
            return
        if pid == 0:
            runner.close()
            _watch(request, descriptors, single=self._single)


def _make_space(writer: int) -> NoReturn:
    """In a child of the warden: fork the space's first process and report its number."""
    try:
        kernel.unshare(kernel.NEWPID | kernel.NEWNS)
        reader, ready = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(writer)
            _be_first(ready)
        os.close(ready)
        said = os.read(reader, 1000).decode()
        os.write(writer, (str(first) if said == "ready" else said).encode())
    except OSError as error:
        os.write(writer, str(error).encode())
    os._exit(0)


def _be_first(ready: int) -> NoReturn:
    try:
        kernel.mount("proc", "/proc", "proc", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC)
        # Of this space alone: where the sandbox has one user, modes would not keep a kept service from the grader's.
        kernel.mount("tmpfs", "/run/endless", "tmpfs", kernel.NOSUID | kernel.NODEV, "size=64m,mode=700")
    except OSError as error:
        os.write(ready, str(error).encode())
        os._exit(1)
    os.write(ready, b"ready")
    os.closerange(0, 1024)
    with contextlib.suppress(OSError):  # shorter in the agent's process list than what this process is now
        os.execve("/bin/sleep", ["sleep", "infinity"], {})
    while True:
        signal.pause()


def _watch(request: wire.Message, descriptors: Sequence[int], *, single: bool) -> NoReturn:
    """In a child of the warden: enter the space, start the program as a child, and report what becomes of it."""
    status = descriptors[2]
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for kind, flag in (("pid", kernel.NEWPID), ("mnt", kernel.NEWNS)):
            descriptor = os.open(f"/proc/{request['space']}/ns/{kind}", os.O_RDONLY)
            kernel.setns(descriptor, flag)
        reader, failed = os.pipe()
        child = os.fork()
        if child == 0:
            _become(request, descriptors, failed, single=single)
        for descriptor in (failed, *descriptors[:2]):
            os.close(descriptor)
        trouble = os.read(reader, 1000).decode()
        os.write(status, (f"error {trouble}\n" if trouble else "started\n").encode())
        _, ended = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(ended)
        os.write(status, f"exit {code if code >= 0 else 128 - code}\n".encode())
    except OSError as error:
        os.write(status, f"error {error}\n".encode())
    os._exit(0)


def _become(request: wire.Message, descriptors: Sequence[int], failed: int, *, single: bool) -> NoReturn:
    """In the program's own process: take its streams, limits and identity, and execute it."""
    try:
        os.setsid()
        for number, descriptor in enumerate((descriptors[0], descriptors[1], descriptors[1])):
            os.dup2(descriptor, number)
        _first_to_go(agent=request["agent"])
        for name, most in request["limits"].items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
        _take_identity(agent=request["agent"], single=single)
        os.chdir(request["cwd"])
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except (OSError, ValueError) as error:
        os.write(failed, f"{request['argv'][0]}: {error}"[:900].encode("utf-8", "replace"))
    os._exit(127)


def _first_to_go(*, agent: bool) -> None:
    """When the machine runs out of memory, the agent's processes end before anybody else's, and before the warden."""
    Path("/proc/self/oom_score_adj").write_text("1000" if agent else "500", encoding="utf-8")


def _take_identity(*, agent: bool, single: bool) -> None:
    if agent and single:
        _namespace_of_one()
    kernel.keep_capabilities(frozenset() if agent else ROOT_CAPABILITIES)
    if agent and not single:
        os.setgroups([])
        os.setresgid(AGENT, AGENT, AGENT)
        os.setresuid(AGENT, AGENT, AGENT)
    kernel.no_new_privileges()


def _namespace_of_one() -> None:
    """Where the sandbox has one user, the agent is that user under its own number, in a namespace without rights."""
    kernel.unshare(kernel.NEWUSER)
    for file, text in (("setgroups", "deny"), ("gid_map", f"{AGENT} 0 1"), ("uid_map", f"{AGENT} 0 1")):
        Path(f"/proc/self/{file}").write_text(text, encoding="utf-8")
    forbid_user_namespaces()


def forbid_user_namespaces() -> None:
    """No further user namespaces below this one: they are where an unprivileged program meets the kernel's depths."""
    Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="utf-8")
