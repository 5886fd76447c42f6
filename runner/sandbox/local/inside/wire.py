"""Messages between the runner and the inside: JSON objects and descriptors over a sequenced-packet socket."""

import json
import os
import socket
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
Socket = socket.socket
BOTH_WAYS = socket.SHUT_RDWR
LARGEST = 1 << 20
_DESCRIPTORS = 8


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends. Descriptors in Python do not survive into other programs unless asked to."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
    return ends


def send(end: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> None:
    """Send one message. Raises OSError when the other side is gone or the message is too long."""
    socket.send_fds(end, [json.dumps(message).encode()], list(descriptors))


def receive(end: socket.socket) -> tuple[Message, list[int]] | None:
    """The next message and its descriptors, or None when the other side is gone. Raises OSError, TimeoutError."""
    data, descriptors, _, _ = socket.recv_fds(end, LARGEST, _DESCRIPTORS)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # unlike all others, received ones would pass on to started programs
    if not data:
        return None
    message: Message = json.loads(data)
    return message, descriptors
