"""Starts a local sandbox with a busy agent, says so and waits to be killed: `python abandon_local.py CACHE MARK`."""

import sys
import time
from pathlib import Path

from runner.domain.task import Environment
from runner.sandbox.base import Image
from runner.sandbox.local import LocalBackend
from runner.schema import Sandbox


def main(cache: str, mark: str) -> None:
    backend = LocalBackend(Sandbox(), Path(cache), "abandoned")
    image = backend.build(Environment(setup="true"), timeout=60)
    assert isinstance(image, Image)
    with backend.start(image) as sandbox:
        sandbox.run(f"sleep {mark} & setsid sleep {mark} & trap '' TERM HUP; sleep {mark} &", timeout=10)
        print("started", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
