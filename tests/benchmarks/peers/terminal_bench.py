"""terminal-bench: ``Terminal`` and ``TmuxSession``; a command is ``send_keys`` and reading the pane, as its agents do.

Its recording of the terminal (asciinema) is off: starting that takes three seconds more."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peers.measuring import TEST, Open
from peers.protocol import Setup, serve

COMPOSE = """services:
  client:
    image: {image}
    container_name: ${{T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}}
    command: ["sh", "-c", "sleep infinity"]
    init: true
    network_mode: none
    volumes: ["${{T_BENCH_TASK_LOGS_PATH}}:${{T_BENCH_CONTAINER_LOGS_PATH}}"]
"""


class Tmux:
    def __init__(self, terminal, tests: Path) -> None:
        self._terminal, self._tests = terminal, tests
        self._session = terminal.create_session("agent")

    def run(self, command: str) -> str:
        self._session.send_keys([command, "Enter"], block=True)
        return self._session.capture_pane()

    def grade(self) -> bool:
        """What its harness does: copy the tests, run them in a session of their own, read the pane."""
        from terminal_bench.parsers.base_parser import UnitTestStatus
        from terminal_bench.parsers.pytest_parser import PytestParser

        self._terminal.copy_to_container(paths=[self._tests], container_dir="/tests")
        session = self._terminal.create_session("tests", as_configured_user=False)
        session.send_keys(["bash ", "/tests/run-tests.sh", "Enter"], block=True)
        results = PytestParser().parse(session.capture_pane(capture_entire=True))
        return len(results) == 2 and set(results.values()) == {UnitTestStatus.PASSED}


@contextmanager
def make(setup: Setup, slots: int) -> Iterator[Open]:
    folder = Path(setup.scratch, "terminal-bench")
    tests = folder / "tests"
    tests.mkdir(parents=True, exist_ok=True)
    (folder / "docker-compose.yaml").write_text(COMPOSE.format(image=setup.image))
    (tests / "test_answer.py").write_text(TEST)
    (tests / "run-tests.sh").write_text("pytest -rA /tests/test_answer.py\n")
    yield lambda: _opened(folder, setup.image)


@contextmanager
def _opened(folder: Path, image: str) -> Iterator[Tmux]:
    from terminal_bench.terminal.terminal import spin_up_terminal

    name = f"benchmark-{uuid.uuid4().hex[:12]}"
    logs = folder / name
    logs.mkdir()
    with spin_up_terminal(
        client_container_name=name,
        client_image_name=image,
        docker_compose_path=folder / "docker-compose.yaml",
        sessions_logs_path=logs,
        no_rebuild=True,
        disable_recording=True,
    ) as terminal:
        yield Tmux(terminal, folder / "tests")


if __name__ == "__main__":
    serve(make)
