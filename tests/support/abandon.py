"""A run that is killed: `with abandoned(settings, cache, label, mark) as owner: owner.kill()`.

As a program, it starts a sandbox with a busy agent, says so and waits for its end.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from runner.domain.task import Environment
from runner.sandbox.base import Image
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox

BUSY = "sleep {mark} & setsid sleep {mark} & trap '' TERM HUP; sleep {mark} &"
"""Three processes that end by themselves only after a long time: ``mark`` is a large number."""


def argv(settings: Sandbox, cache: Path, label: str, mark: str, setup: str = "true") -> list[str]:
    """The command line of such a run; ``label`` is its name in an engine, ``setup`` makes its image."""
    return [sys.executable, str(Path(__file__)), json.dumps(asdict(settings)), str(cache), label, mark, setup]


def environment() -> dict[str, str]:
    """With our code on its path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}


@contextmanager
def abandoned(
    settings: Sandbox, cache: Path, label: str, mark: str, setup: str = "true"
) -> "Iterator[subprocess.Popen[bytes]]":
    """The run, once its agent is busy. It is killed at the end, if it was not before."""
    with subprocess.Popen(
        argv(settings, cache, label, mark, setup), stdout=subprocess.PIPE, env=environment()
    ) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"started\n"
            yield owner
        finally:
            owner.kill()


def main(settings: str, cache: str, label: str, mark: str, setup: str) -> None:
    backend = open_backend(Sandbox(**json.loads(settings)), cache=Path(cache), run_label=label)
    image = backend.build(Environment(setup=setup), timeout=120)
    assert isinstance(image, Image)
    with backend.start(image) as sandbox:
        sandbox.run(BUSY.format(mark=mark), timeout=10)
        print("started", flush=True)
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
