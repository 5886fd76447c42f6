"""Processes of this machine by a word in their command line, and waiting for things to come true."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path


def new_mark() -> str:
    """A number for ``sleep`` that no other process of this machine has."""
    return f"5{secrets.randbelow(10**12)}"


def processes_with(mark: str) -> list[str]:
    """The numbers of processes whose command line holds ``mark``; those that have ended have none."""
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in process.read_bytes():
                found.append(process.parent.name)
        except OSError:
            continue
    return found


def until(condition: Callable[[], object], seconds: float = 20) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False
