"""How fast our sandboxes are, beside other tools on the same engine and the same image, in one run.

    python tests/benchmarks/sandbox.py [--peers mini-swe-agent,harbor] [--concurrency 1,8,32] [--rounds 3,2,1]
        [--python312 PATH] [--out results.json] [--publish]

Needs a Docker engine and its command line with `compose`; fetches the other tools with pip, once, each into a virtual
environment of its own. Every tool is used through its own public interface, by a driver in ``peers/`` that runs in a
process of its own, and is asked for the same: open so many sandboxes at once; run commands in all of them at once, one
right after the other; run some with a pause of a second between them, as an agent whose model thinks (at the highest
concurrency only); grade a file with a pytest file of two tests; remove them. All take turns in each round, so that
what else the machine does hits all alike.

**start** is from asking for a sandbox to the answer of its first command. **one command** is the round trip of an
``echo``, its output included. **grading** is each tool's own verifier; where it has none, pytest executed in the
container. **wait** is what an episode waits for in a steady run, with twice as many workers as slots: from the end of
one episode to the first answer of the one that takes its place.

Nothing may stay: containers of the image are counted after every turn, and what a tool left is reported and removed.
"""

import argparse
import contextlib
import itertools
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import docker
import psutil
from docker import DockerClient
from docker.errors import APIError
from sandbox_driver import Driver
from sandbox_setup import TOOLS, Missing, Tool, make_image, python_for
from sandbox_table import published, render

from runner.domain.task import Environment
from runner.sandbox.base import Image
from runner.sandbox.docker.engine import find_address
from runner.sandbox.registry import open_backend, probe_one
from runner.schema import Sandbox

PUBLISHED = Path(__file__).resolve().parents[2] / "sandboxes" / "README.md"
DEFAULT_CACHE = Path.home() / ".cache" / "endless-benchmarks"
SETTLE_SECONDS = 20.0
"""How long a tool's containers may take to go after its turn."""


def main() -> None:
    arguments = _arguments()
    os.environ["DOCKER_HOST"] = find_address()
    if not (found := probe_one("docker")).ok:
        sys.exit(f"The benchmark needs a container engine. {found.detail} {found.remedy}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    client = docker.from_env(timeout=300)
    try:
        with tempfile.TemporaryDirectory(prefix="endless-benchmark-", ignore_cleanup_errors=True) as scratch:
            result = measure(client, arguments, Path(scratch))
    finally:
        client.close()
    table = render(result)
    print(table)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(result) + "\n", encoding="utf-8")
    if arguments.publish:
        PUBLISHED.write_text(published(PUBLISHED.read_text("utf-8"), table), encoding="utf-8")


def measure(client: DockerClient, arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """All rounds, as the table wants them."""
    began, load = time.monotonic(), os.getloadavg()[0]
    cache = Path(arguments.cache)
    cache.mkdir(parents=True, exist_ok=True)
    bridge = any(network.name == "bridge" for network in client.networks.list())
    tools = _chosen(arguments.backends, arguments.peers)
    with_swe_rex = any(tool.driver == "swe_rex" for tool in tools)
    image = make_image(client, _base(cache, bridge), bridge=bridge, with_swe_rex=with_swe_rex)
    setup = {"image": image, "bridge": bridge, "scratch": str(scratch), "cache": str(cache)}
    records: list[dict[str, Any]] = []
    with _drivers(client, tools, setup, arguments.python312, records) as drivers:
        for number, tool, request in _turns(tools, arguments):
            failed = any(r["tool"] == tool.name and _same(r, request) and "error" in r for r in records)
            if tool.name in drivers and not failed:
                answer = drivers[tool.name].ask(request, arguments.limit)
                left = _removed(client, image, SETTLE_SECONDS)
                record = {"tool": tool.name, "do": request["do"], "at": _at(request), "round": number, **answer}
                records.append(record | ({"left": left} if left else {}))
                _say(records[-1])
    return {
        "machine": f"{_machine(client)}, load average {load:.1f} before the run",
        "seconds": round(time.monotonic() - began),
        "reference": next(tool.name for tool in tools if tool.is_ours),
        "records": records,
    }


def _chosen(backends: str, peers: str | None) -> list[Tool]:
    """The SDK always; of ours those backends that work here; of the others those whose names begin so."""
    named = None if peers is None else tuple(name.strip() for name in peers.split(",") if name.strip())

    def wanted(tool: Tool) -> bool:
        if tool.backend:
            return tool.backend in backends.split(",") and probe_one(tool.backend).ok
        return not tool.requirement or named is None or tool.name.startswith(named)

    return [tool for tool in TOOLS if wanted(tool)]


def _base(cache: Path, bridge: bool) -> str:
    """Our own base image, which has Python and pytest; built first where it is not there."""
    network = None if bridge else "host"
    backend = open_backend(Sandbox(backend="docker", build_network=network), cache=cache, run_label="benchmark")
    try:
        image = backend.build(Environment(setup="true"), timeout=600)
    finally:
        backend.close()
    assert isinstance(image, Image), image
    return image.reference


@contextlib.contextmanager
def _drivers(
    client: DockerClient,
    tools: Sequence[Tool],
    setup: dict[str, Any],
    python312: str | None,
    records: list[dict[str, Any]],
) -> Iterator[dict[str, Driver]]:
    """A driver for every tool that can be set up; a record of why for every one that cannot."""
    drivers = {}
    for tool in tools:
        try:
            python = python_for(tool, Path(setup["cache"]), python312)
        except Missing as reason:
            records.append({"tool": tool.name, "do": "set-up", "at": None, "error": str(reason)})
            continue
        image = _unpacked(client, setup) if tool.backend == "apptainer" else setup["image"]
        own = {**setup, "backend": tool.backend, "image": image}
        drivers[tool.name] = Driver(tool, python, own, Path(setup["scratch"], f"{tool.driver}.log"))
    try:
        yield drivers
    finally:
        for driver in drivers.values():
            driver.close()
        _removed(client, setup["image"], 0)


def _unpacked(client: DockerClient, setup: dict[str, Any]) -> str:
    """The image as a file, for Apptainer; and a place for it to work in, even where it runs as another user."""
    for place in ("", "apptainer", "apptainer/base"):
        Path(setup["cache"], place).mkdir(exist_ok=True)
        Path(setup["cache"], place).chmod(0o777)
    path = Path(setup["cache"], setup["image"].replace(":", "-") + ".tar")
    if not path.exists():
        with path.with_suffix(".partial").open("wb") as file:
            file.writelines(client.images.get(setup["image"]).save(named=True))
        path.with_suffix(".partial").rename(path)
    return str(path)


def _turns(tools: Sequence[Tool], arguments: argparse.Namespace) -> Iterator[tuple[int, Tool, dict[str, Any]]]:
    """(round, tool, request): in each round all tools take turns, each time another one first."""
    highest = max(arguments.concurrency)
    for number in range(max(arguments.rounds)):
        for level, rounds in zip(arguments.concurrency, arguments.rounds, strict=True):
            paced = 3 if level == highest else 0
            request = {"do": "burst", "sandboxes": level, "seconds": arguments.seconds, "paced": paced}
            for place in range(len(tools) if number < rounds else 0):
                yield number, tools[(place + number) % len(tools)], request
    for level, tool in itertools.product(arguments.concurrency, tools):
        if tool.steady:
            yield 0, tool, {"do": "steady", "slots": level, "seconds": max(1.0, 0.3 * level)}


def _at(request: dict[str, Any]) -> int:
    return int(request.get("sandboxes") or request["slots"])


def _same(record: dict[str, Any], request: dict[str, Any]) -> bool:
    return (record["do"], record["at"]) == (request["do"], _at(request))


def _removed(client: DockerClient, image: str, seconds: float) -> int:
    """Wait until the image has no containers any more; those that stay are removed, and counted."""
    deadline = time.monotonic() + seconds
    while (found := _containers(client, image)) and time.monotonic() < deadline:
        time.sleep(0.2)
    for container in found:
        with contextlib.suppress(APIError):  # it is being removed already
            client.api.remove_container(container, force=True, v=True)
    return len(found)


def _containers(client: DockerClient, image: str) -> list[str]:
    return [found["Id"] for found in client.api.containers(all=True, filters={"ancestor": image})]


def _say(record: dict[str, Any]) -> None:
    """One line of progress."""
    figures = {
        kind: f"{1000 * median(record[kind]):.2f} ms"
        for kind in ("start", "command", "paced", "grade", "waits")
        if record.get(kind)
    }
    said = record.get("error") or ", ".join(f"{kind} {value}" for kind, value in figures.items())
    print(f"{record['tool']}, {record['do']} at {record['at']}: {said}", file=sys.stderr, flush=True)


def _machine(client: DockerClient) -> str:
    memory = psutil.virtual_memory().total / 2**30
    version = client.version()["Version"].partition("+")[0]
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Docker {version}, Python {platform.python_version()}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--peers", help="the starts of their names, with commas; empty: only ours and the SDK; default: all"
    )
    parser.add_argument("--backends", default="docker,apptainer,local", help="of ours; default: all that work here")
    parser.add_argument("--concurrency", type=_numbers, default=[1, 8, 32], help="sandboxes at once")
    parser.add_argument(
        "--rounds", type=_numbers, default=[3, 2, 1], help="turns of each tool, one number per concurrency"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of commands, in each turn")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds after which a tool's turn ends")
    parser.add_argument("--python312", help="a Python 3.12, for the tools that need it; default: python3.12")
    parser.add_argument("--cache", default=str(DEFAULT_CACHE), help="folder for the tools; default: %(default)s")
    parser.add_argument("--out", help="a file for all figures, as JSON")
    parser.add_argument("--publish", action="store_true", help="put the table into sandboxes/README.md")
    found = parser.parse_args()
    if len(found.rounds) != len(found.concurrency):
        parser.error("--rounds needs as many numbers as --concurrency")
    return found


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
