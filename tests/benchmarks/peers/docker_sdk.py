"""The floor: Docker's own SDK for Python, with no more than a container and an exec per command."""

import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import docker
from docker import DockerClient
from docker.models.containers import Container
from peers.measuring import TEST, Open
from peers.protocol import Setup, serve


class Sdk:
    def __init__(self, container: Container) -> None:
        self._container = container

    def run(self, command: str) -> str:
        return self._container.exec_run(["bash", "-c", command]).output.decode()

    def grade(self) -> bool:
        """No verifier of its own: pytest in the container."""
        self._container.put_archive("/", _archive("tests/test_answer.py", TEST.encode()))
        return self._container.exec_run(["pytest", "-q", "/tests/test_answer.py"]).exit_code == 0


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[Open]:
    client = docker.from_env(max_pool_size=4 * slots + 8, timeout=300)
    free = threading.BoundedSemaphore(slots)
    try:
        yield lambda: _opened(client, setup.image, free)
    finally:
        client.close()


@contextmanager
def _opened(client: DockerClient, image: str, free: threading.BoundedSemaphore) -> Iterator[Sdk]:
    with free:
        container = client.containers.run(
            image, ["sleep", "7200"], detach=True, init=True, network_mode="none", working_dir="/"
        )
        try:
            yield Sdk(container)
        finally:
            container.remove(force=True, v=True)


def _archive(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


if __name__ == "__main__":
    serve(make)
