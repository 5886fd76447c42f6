"""Whose a container, an image or a volume is: the labels that everything of ours carries."""

import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil

MARK, RUN, OWNER = "endless", "endless.run", "endless.owner"
LIVE, IMAGE, VOLUME = "1", "image", "kept"
"""Values of ``MARK``: a container that may be reaped; an image (whose labels containers inherit); a volume."""


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


def label_filter(mark: str, only: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For the engine's lists: what has our mark, and the labels ``only``."""
    return {"label": [f"{name}={value}" for name, value in {MARK: mark, **(only or {})}.items()]}
