"""The program inside the sandbox that ends the agent's processes, all but its services. Never imported by the runner:
``services`` sends its text, and the Harbor export has a copy (so: Python 3.9, standard library only).

Its arguments are TCP ports. A process of the agent's that has a socket listening on one of them is kept; all others are
killed. It runs as the sandbox's root, in the agent's process namespace. What makes that exact:

* a service that was started a moment ago has some seconds to begin to listen;
* everything is stopped then, by one ``kill(-1, SIGSTOP)``: the kernel does that at once for the whole namespace, so
  nothing forks away, and nothing acts while it is being looked at;
* who holds which socket is read as the agent's user, by a child: root here lacks the capability to look into others'
  descriptors. A process that hides its own from its user (it is not "dumpable") is not kept;
* after the kills everything is stopped and looked at again, until only keepers are found.

A keeper and the rest of its process group run again before the kills: if a group's last link to its session died while
a member was stopped, the kernel would send it a SIGHUP.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

AGENT = 1000
ROUNDS, LISTEN_SECONDS, STOP_SECONDS, END_SECONDS, ALL_SECONDS = 10, 5.0, 3.0, 10.0, 25
KEPT, NOBODY, TROUBLE = 0, 3, 4
"""Exit codes: only keepers are left; nothing of the agent's is left; it did not work, and the caller must end all."""
LISTENING = "0A"
HALTED = "TtDZXx"
"""States of a thread that does nothing: stopped, traced, waiting for a (stopped) child to execute, dead."""


def main(ports: set[int]) -> int:
    """Do it; returns the exit code."""
    signal.alarm(ALL_SECONDS)
    await_listeners(ports)
    try:
        for _ in range(ROUNDS):
            left = one_round(ports)
            if left is not None:
                return KEPT if left else NOBODY
    except (OSError, ValueError, RuntimeError) as error:
        print(f"{type(error).__name__}: {error}")
    resume(set(processes()) - agents())
    return TROUBLE


def await_listeners(ports: set[int]) -> None:
    """Wait until each port has one, or nobody is left who could be."""
    deadline = time.monotonic() + LISTEN_SECONDS
    while not ports <= set(listening(ports).values()) and agents() and time.monotonic() < deadline:
        time.sleep(0.02)


def one_round(ports: set[int]) -> set[int] | None:
    """Stop, look, kill; the keepers once there is nobody else, None while there was. Raises OSError, RuntimeError."""
    found = stop()
    keepers = holders(ports) & found
    others = found - keepers
    groups = {group(pid) for pid in keepers}
    resume(pid for pid in processes() if pid not in others or group(pid) in groups)
    for pid in others:
        send(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_SECONDS
    while any(not halted(pid, "ZXx") for pid in others):
        if time.monotonic() > deadline:
            raise RuntimeError("processes of the agent cannot be killed")
        time.sleep(0.001)
    return None if others else keepers


def stop() -> set[int]:
    """Stop all others; returns the agent's. Raises RuntimeError when they do not stay stopped."""
    deadline = time.monotonic() + STOP_SECONDS
    while True:
        send(-1, signal.SIGSTOP)
        found = agents()
        if all(halted(pid, HALTED) for pid in found):
            return found
        if time.monotonic() > deadline:
            raise RuntimeError("processes of the agent cannot be stopped")
        time.sleep(0.001)


def resume(pids: Iterable[int]) -> None:
    for pid in pids:
        send(pid, signal.SIGCONT)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def processes() -> list[int]:
    """All but the first and this one."""
    return [int(name) for name in names("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]


def names(folder: str) -> list[str]:
    """Nothing when it is gone, or hidden from us."""
    try:
        return os.listdir(folder)  # noqa: PTH208 (there may be very many)
    except OSError:
        return []


def agents() -> set[int]:
    """The agent's live processes. Its user's, where that is a user of its own, but not the container's main program:
    that has the first process's session, which nothing that was executed later can join, nor can it join ours."""
    spared = {session(1), session(0)}
    everybody = not is_mapped()
    return {
        pid
        for pid in processes()
        if session(pid) not in spared and (everybody or AGENT in users(pid)) and not halted(pid, "ZXx")
    }


def halted(pid: int, states: str) -> bool:
    """Whether every thread is in one of these states. A process may live on without its first thread."""
    return all(state in states for state in thread_states(pid))


def thread_states(pid: int) -> list[str]:
    found = []
    for thread in names(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):  # it has just ended
            stat = Path(f"/proc/{pid}/task/{thread}/stat").read_bytes()
            found.append(stat[stat.rindex(b")") + 2 :][:1].decode())
    return found


def users(pid: int) -> set[int]:
    """The real and other user ids of a process; empty when it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith(b"Uid:"):
                return {int(number) for number in line.split()[1:]}
    return set()


def session(pid: int) -> int:
    """-1 when the process is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return -1


def group(pid: int) -> int:
    """A process group, or when the process is gone, a number that no group has."""
    try:
        return os.getpgid(pid)
    except OSError:
        return -pid


def is_mapped() -> bool:
    """Whether the agent's id is another than ours in this user namespace."""
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    return any(int(first) <= AGENT < int(first) + int(count) for first, _, count in ranges)


def holders(ports: set[int]) -> set[int]:
    """Who has a listening socket of these ports, as a child that is the agent sees it. Raises OSError, RuntimeError."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reader)
            become_agent()
            os.write(writer, " ".join(map(str, look(ports))).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        said = answer.read()
    if os.waitpid(child, 0)[1] != 0:
        raise RuntimeError("the agent's descriptors could not be read")
    return {int(pid) for pid in said.split()}


def become_agent() -> None:
    """In a sandbox with a single user, its root may look at everything."""
    if os.geteuid() == 0 and is_mapped():
        os.setgroups([])
        os.setresgid(AGENT, AGENT, AGENT)
        os.setresuid(AGENT, AGENT, AGENT)


def look(ports: set[int]) -> list[int]:
    sockets = set(listening(ports))
    return [pid for pid in processes() if sockets and not sockets.isdisjoint(descriptors(pid))]


def listening(ports: set[int]) -> dict[str, int]:
    """What links to the listening sockets of these ports look like below /proc/PID/fd, and the ports."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):  # a kernel without IPv6
            for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                parts = line.split()
                port = int(parts[1].rpartition(":")[2], 16)
                if parts[3] == LISTENING and port in ports:
                    found[f"socket:[{parts[9]}]"] = port
    return found


def descriptors(pid: int) -> set[str]:
    """What a process has open; nothing when it is gone, or hides it."""
    found = set()
    for name in names(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))  # noqa: PTH115 (there may be very many)
    return found


if __name__ == "__main__":
    sys.exit(main({int(port) for port in sys.argv[1:]}))
