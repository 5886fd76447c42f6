"""inspect-ai: its Docker sandbox, opened and closed as an evaluation does for each sample; ``exec`` per command.

Its own limits on simultaneous `docker` calls are left as they are by default."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from peers.measuring import TEST, AsyncOpen
from peers.protocol import Setup, serve_async

COMPOSE = """services:
  default:
    image: {image}
    x-local: true
    command: tail -f /dev/null
    init: true
    network_mode: none
"""


class Inspect:
    def __init__(self, sandbox) -> None:
        self._sandbox = sandbox

    async def run(self, command: str) -> str:
        return (await self._sandbox.exec(["bash", "-c", command])).stdout

    async def grade(self) -> bool:
        """No verifier of its own; its scorers write a test and execute it."""
        await self._sandbox.write_file("/tests/test_answer.py", TEST)
        return (await self._sandbox.exec(["pytest", "-q", "/tests/test_answer.py"])).success


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[AsyncOpen]:
    from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment

    config = Path(setup.scratch, "inspect-compose.yaml")
    config.write_text(COMPOSE.format(image=setup.image))
    asyncio.run(DockerSandboxEnvironment.task_init("benchmark", str(config)))
    yield lambda: _opened(str(config))


@asynccontextmanager
async def _opened(config: str) -> AsyncIterator[Inspect]:
    from inspect_ai.util._sandbox.docker.docker import DockerSandboxEnvironment as Docker

    sandboxes = await Docker.sample_init("benchmark", config, {})
    try:
        yield Inspect(sandboxes["default"])
    finally:
        await Docker.sample_cleanup("benchmark", config, sandboxes, interrupted=False)


if __name__ == "__main__":
    serve_async(make)
