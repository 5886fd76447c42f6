"""Starts an Apptainer sandbox with a busy agent, says so and waits to be killed:
`python abandon_apptainer.py CACHE BASE_IMAGE MARK`."""

import sys
import time
from pathlib import Path

from runner.domain.task import Environment
from runner.sandbox.apptainer import ApptainerBackend
from runner.sandbox.base import Image
from runner.schema import Sandbox


def main(cache: str, base_image: str, mark: str) -> None:
    backend = ApptainerBackend(Sandbox(base_image=base_image), Path(cache), "abandoned")
    image = backend.build(Environment(setup="true"), timeout=60)
    assert isinstance(image, Image)
    with backend.start(image) as sandbox:
        sandbox.run(f"sleep {mark} & setsid sleep {mark} & trap '' TERM HUP; sleep {mark} &", timeout=10)
        print("started", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
