"""Harbor: ``DockerEnvironment.start``, ``exec`` and ``Verifier.verify``, with a prebuilt image."""

import itertools
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from peers.measuring import TEST, AsyncOpen
from peers.protocol import Setup, serve_async

TASK = """version = "1.0"
[environment]
docker_image = "{image}"
"""
COMPOSE = "services: {main: {network_mode: none, init: true}}\n"
SCRIPT = """pytest -q /tests/test_answer.py && reward=1 || reward=0
echo $reward >/logs/verifier/reward.txt
"""


class Harbor:
    def __init__(self, task, paths, environment) -> None:
        self._task, self._paths, self._environment = task, paths, environment

    async def run(self, command: str) -> str:
        return (await self._environment.exec(command)).stdout or ""

    async def grade(self) -> bool:
        from harbor.verifier.verifier import Verifier

        verifier = Verifier(task=self._task, trial_paths=self._paths, environment=self._environment)
        return (await verifier.verify()).rewards == {"reward": 1.0}


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[AsyncOpen]:
    from harbor.models.task.task import Task

    folder = Path(setup.scratch, "harbor")
    for name, text in {
        "task/task.toml": TASK.format(image=setup.image),
        "task/instruction.md": "Write the answer.\n",
        "task/environment/docker-compose.yaml": COMPOSE,
        "task/tests/test.sh": SCRIPT,
        "task/tests/test_answer.py": TEST,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    task = Task(folder / "task")
    numbers = itertools.count()
    yield lambda: _opened(task, folder / f"trial-{uuid.uuid4().hex[:8]}-{next(numbers)}")


@asynccontextmanager
async def _opened(task, folder: Path) -> AsyncIterator[Harbor]:
    from harbor.environments.docker.docker import DockerEnvironment
    from harbor.models.trial.paths import TrialPaths

    paths = TrialPaths(folder)
    paths.mkdir()
    environment = DockerEnvironment(
        environment_dir=task.paths.environment_dir,
        environment_name=task.short_name,
        session_id=folder.name,
        trial_paths=paths,
        task_env_config=task.config.environment,
    )
    try:
        await environment.start(force_build=False)
        yield Harbor(task, paths, environment)
    finally:
        await environment.stop(delete=True)


if __name__ == "__main__":
    serve_async(make)
