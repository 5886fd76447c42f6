"""The first process of a sandbox: makes its namespaces and its files, then starts programs in it on request.

It is process 1 of the sandbox's process namespace, and its socket to the runner is a lifeline. When the runner ends,
however abruptly, the socket is at its end, the warden exits, the kernel kills every process of the sandbox, and with
the last of them the files vanish, for they are in memory. Nothing is left to clean up.
"""

import fcntl
import os
import signal
import socket
import struct
import traceback
from collections.abc import Sequence
from typing import NoReturn

from runner.sandbox.local.inside import kernel, wire
from runner.sandbox.local.inside.space import Spaces
from runner.sandbox.local.inside.tree import Tree

Request = wire.Message


def main(settings: wire.Message, descriptors: Sequence[int]) -> NoReturn:
    """Be a sandbox. ``descriptors``: our end of the socket and, if there is one, the image's layer."""
    runner = socket.socket(fileno=descriptors[0])
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        tree = _isolate(runner, settings)
        child = os.fork()
        if child == 0:
            _first_process(runner, settings, tree, descriptors[1:])
        runner.close()
        os.waitpid(child, 0)
    except Exception as error:  # whatever it is, the runner must hear of it
        _give_up(runner, error)
    os._exit(0)


def _give_up(runner: socket.socket, error: Exception) -> NoReturn:
    trace = "" if isinstance(error, OSError) else f"\n{traceback.format_exc()}"
    wire.send(runner, {"error": f"{error}{trace}"})
    os._exit(1)


def _isolate(runner: socket.socket, settings: wire.Message) -> Tree:
    """Enter new namespaces, and become their root once the runner has said who that is outside."""
    kernel.unshare(kernel.NEWUSER)
    wire.send(runner, {"unshared": True})
    if wire.receive(runner) is None:
        os._exit(1)
    network = 0 if settings["network"] else kernel.NEWNET
    kernel.unshare(kernel.NEWNS | kernel.NEWPID | kernel.NEWIPC | kernel.NEWUTS | network)
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    tree = Tree(settings)  # opens folders that only the user we still are outside may be able to reach
    if not settings["single"]:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
        kernel.set_dumpable()
    return tree


def _first_process(runner: socket.socket, settings: wire.Message, tree: Tree, layers: Sequence[int]) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans end here and are nobody's business
        tree.build(layers)
        socket.sethostname("sandbox")
        if not settings["network"]:
            _loopback_up()
        wire.send(runner, {"ready": True})
        _serve(runner, settings, tree)
    except Exception as error:  # whatever it is, the runner must hear of it
        _give_up(runner, error)
    os._exit(0)


def _loopback_up() -> None:
    """Raise the ``lo`` interface of the new network namespace, the only one in it."""
    up, set_flags = 0x1, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14x", b"lo", up))


def _serve(runner: socket.socket, settings: wire.Message, tree: Tree) -> None:
    """Do what the runner asks until it is gone."""
    spaces = Spaces(settings)
    while (received := wire.receive(runner)) is not None:
        request, descriptors = received
        try:
            answer = _do(request, descriptors, spaces, tree, runner)
        except OSError as error:  # a request that failed; the sandbox goes on
            answer = {"error": str(error)}
        for descriptor in descriptors:
            os.close(descriptor)
        if answer is not None:
            wire.send(runner, answer)


def _do(
    request: Request, descriptors: Sequence[int], spaces: Spaces, tree: Tree, runner: socket.socket
) -> wire.Message | None:
    """One request. Starting a program has no answer here: its own status descriptor says how it went."""
    match request["do"]:
        case "open":
            return {"space": spaces.open(runner)}
        case "close":
            spaces.close(request["space"])
        case "start":
            spaces.start(request, descriptors, runner)
            return None
        case "pack":
            tree.give_home()
            tree.pack(descriptors[0])
    return {"done": True}
