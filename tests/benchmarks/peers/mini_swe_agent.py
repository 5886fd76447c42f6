"""mini-swe-agent: ``DockerEnvironment.execute``, a ``docker exec`` per command, in threads as its batch runs do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from peers.measuring import TEST, Open
from peers.protocol import Setup, serve


class Mini:
    def __init__(self, environment) -> None:
        self._environment = environment

    def run(self, command: str) -> str:
        return self._environment.execute({"command": command})["output"]

    def grade(self) -> bool:
        """No verifier of its own: pytest in the container."""
        script = f"mkdir -p /tests && cat >/tests/test_answer.py <<'END'\n{TEST}END\npytest -q /tests/test_answer.py"
        return self._environment.execute({"command": script}, timeout=120)["returncode"] == 0


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[Open]:
    os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": setup.scratch}
    yield lambda: _opened(setup.image)


@contextmanager
def _opened(image: str) -> Iterator[Mini]:
    from minisweagent.environments.docker import DockerEnvironment

    # --init, which costs nothing, lets its `docker stop` take less than ten seconds afterwards.
    environment = DockerEnvironment(image=image, run_args=["--rm", "--init", "--network", "none"], timeout=120)
    try:
        yield Mini(environment)
    finally:
        environment.cleanup()


if __name__ == "__main__":
    serve(make)
