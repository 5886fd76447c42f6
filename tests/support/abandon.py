"""Starts a sandbox, says so and waits to be killed: `python abandon.py ADDRESS CACHE IMAGE`."""

import sys
import time
from pathlib import Path

from runner.domain.task import Environment
from runner.sandbox.base import Image
from runner.sandbox.docker import DockerBackend
from runner.schema import Sandbox


def main(address: str, cache: str, reference: str) -> None:
    backend = DockerBackend(Sandbox(address=address), Path(cache), "abandoned")
    with backend.start(Image(reference=reference, environment=Environment())):
        print("started", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
