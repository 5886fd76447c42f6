"""swe-rex: ``DockerDeployment`` and ``run_in_session``, in threads with ``asyncio.run`` per call as SWE-agent does.

Its server in the container is reached over TCP. Where the engine has no bridge network that can publish a port, its
containers share the machine's network, each server on a port of its own (which saves them a network namespace)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from peers.measuring import TEST, Open
from peers.protocol import Setup, serve

SECONDS = 180.0


class Rex:
    def __init__(self, runtime) -> None:
        self._runtime = runtime

    def run(self, command: str) -> str:
        return self._action(command).output

    def grade(self) -> bool:
        """No verifier of its own: pytest in the container."""
        from swerex.runtime.abstract import WriteFileRequest

        asyncio.run(self._runtime.write_file(WriteFileRequest(content=TEST, path="/tests/test_answer.py")))
        return self._action("pytest -q /tests/test_answer.py").exit_code == 0

    def _action(self, command: str):
        from swerex.runtime.abstract import BashAction

        return asyncio.run(self._runtime.run_in_session(BashAction(command=command, timeout=SECONDS, check="silent")))


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[Open]:
    yield lambda: _opened(setup)


@contextmanager
def _opened(setup: Setup) -> Iterator[Rex]:
    from swerex.deployment.docker import DockerDeployment
    from swerex.runtime.abstract import CreateBashSessionRequest
    from swerex.utils.free_port import find_free_port

    port = find_free_port()
    args = [] if setup.bridge else ["--network", "host", "--env", f"SWEREX_PORT={port}"]
    deployment = DockerDeployment(
        image=setup.image, port=port, docker_args=["--init", *args], pull="never", startup_timeout=SECONDS
    )
    try:
        asyncio.run(deployment.start())
        asyncio.run(deployment.runtime.create_session(CreateBashSessionRequest(startup_timeout=30)))
        yield Rex(deployment.runtime)
    finally:
        asyncio.run(deployment.stop())


if __name__ == "__main__":
    serve(make)
