"""Reading a started program's output, whatever carries it."""

import time
from typing import Protocol


class Readable(Protocol):
    """The reading half of ``shell.Transport``."""

    def receive(self, timeout: float) -> bytes | None:
        """Some output; None: nothing in time; ``b""``: the end. ``timeout`` in seconds."""


def collect(program: Readable, seconds: float, limit: int) -> tuple[bytes, str]:
    """Output up to ``limit`` bytes, and why the reading stopped: ``""`` at the end, ``time`` or ``flood``."""
    deadline = time.monotonic() + seconds
    output = bytearray()
    while len(output) <= limit:
        chunk = program.receive(max(0.0, deadline - time.monotonic()))
        if chunk == b"":
            return bytes(output), ""
        output += chunk or b""
        if time.monotonic() >= deadline:
            return bytes(output[:limit]), "time"
    return bytes(output[:limit]), "flood"


def collect_tail(program: Readable, seconds: float, limit: int) -> tuple[bytes, bool]:
    """The last ``limit`` bytes of a program's whole output, and whether its time ran out first."""
    deadline = time.monotonic() + seconds
    tail = bytearray()
    while (left := deadline - time.monotonic()) > 0:
        chunk = program.receive(left)
        if chunk == b"":
            return bytes(tail), False
        tail += chunk or b""
        del tail[:-limit]
    return bytes(tail), True
