"""Ours, through ``runner.sandbox.base``: the shell an agent gets, and the grading an episode ends with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers.measuring import TEST, Open
from peers.protocol import Setup, serve

from runner.domain.episode import Outcome
from runner.domain.task import Environment
from runner.grading.verify import verify
from runner.sandbox.base import Backend, Image, Sandbox
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox as Settings


class Ours:
    def __init__(self, sandbox: Sandbox, grader: Path) -> None:
        self._sandbox, self._grader = sandbox, grader

    def run(self, command: str) -> str:
        return self._sandbox.run(command, timeout=60).output.decode()

    def grade(self) -> bool:
        return verify(self._sandbox, self._grader, TEST, timeout=60).outcome is Outcome.PASS


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[Open]:
    settings = Settings(backend=setup.backend, base_image=setup.image, concurrency=slots)
    backend = open_backend(settings, cache=Path(setup.cache), run_label="benchmark")
    try:
        image = _image(backend, setup)
        with backend.start(image) as sandbox:  # what is made once per machine or run: the grader's Python, say
            sandbox.run("true", timeout=60)
        yield lambda: _opened(backend, image)
    finally:
        backend.close()


def _image(backend: Backend, setup: Setup) -> Image:
    """On Docker the very image that the others get."""
    environment = Environment(setup="true")
    if setup.backend == "docker":
        return Image(reference=setup.image, environment=environment)
    image = backend.build(environment, timeout=600)
    assert isinstance(image, Image), image
    return image


@contextmanager
def _opened(backend: Backend, image: Image) -> Iterator[Ours]:
    with backend.start(image) as sandbox:
        yield Ours(sandbox, backend.grader)


if __name__ == "__main__":
    serve(make)
