"""What a run must not leave behind: processes and containers."""

import time
from pathlib import Path

import psutil
from support.endless import Workplace

SECONDS = 10.0
"""How long the kernel may take to end what it was told to end."""


def processes_of(folder: Path) -> list[str]:
    """Processes that work in the folder or name it, once they had time to end."""
    deadline = time.monotonic() + SECONDS
    while (left := _now(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def _now(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line or str(process.info["cwd"] or "").startswith(str(folder)):
            found.append(line)
    return found


def containers_of(place: Workplace) -> list[str]:
    """The containers of the workplace's run; none where it does not use an engine."""
    address = next((word.partition("=")[2] for word in place.sandbox if word.startswith("sandbox.address=")), None)
    if address is None:
        return []
    import docker

    run = next((place.folder / "outputs" / "runs").iterdir()).name
    client = docker.DockerClient(base_url=address)
    try:
        return [c.name for c in client.containers.list(all=True, filters={"label": f"endless.run={run}"})]
    finally:
        client.close()
