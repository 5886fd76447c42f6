"""Runs one test file where the agent's files cannot reach it; exits with 0 only if every collected test passed.

Started by test.sh with ``python3 -I``: no environment, no user site, no working directory on the path. The test is
copied to a folder that only root can read, away from any conftest.py or pytest.ini. Programs that it starts run as the
agent, since they may be the agent's own.

TCP ports may follow the test: then the agent's processes that listen on them live on (keep.py, beside this file), and
programs that the test starts run as another user, whom those have no power over.
"""

from __future__ import annotations

import inspect
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

AGENT, STRANGER = 1000, 65534


class Count:
    """Passing is every collected test passing, not merely nothing failing."""

    def __init__(self, children: int) -> None:
        self.children = children
        self.collected = 0
        self.passed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = len(session.items)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, None]:
        """pytest makes tmp_path for root only; programs that tests start are not root."""
        outcome = yield
        if fixturedef.argname == "tmp_path" and outcome.excinfo is None:
            folder = Path(outcome.get_result())
            hand_over(folder, self.children)
            for parent in list(folder.parents)[:2]:
                parent.chmod(0o711)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed


def end_agent_processes() -> None:
    """Kill what the agent left running. The container's main process and its children have a session of their own,
    which nothing that was executed in the container later can join: they stay, or the container would end."""
    main = session(1)
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        if owner(pid) == AGENT and session(pid) != main:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def keep(ports: list[str]) -> bool:
    """End all of the agent's processes but those that listen on these ports; False where all are to end."""
    program = Path(__file__).with_name("keep.py")
    return bool(ports) and subprocess.call([sys.executable, "-I", "-B", str(program), *ports]) == 0


def hand_over(folder: Path, user: int) -> None:
    """Let programs that the tests start use a folder, but no process of the agent that was kept."""
    if user != AGENT and os.geteuid() == 0:
        os.chown(folder, user, -1)
    folder.chmod(0o777 if user == AGENT else 0o700)


def demote_children(user: int) -> None:
    """Let programs that the tests start run as this user, with folders that they can use (Python 3.9 and later)."""
    start, make = subprocess.Popen.__init__, tempfile.mkdtemp
    if "user" not in inspect.signature(start).parameters:
        return

    def demoted(self: Any, *args: Any, **keywords: Any) -> None:
        start(self, *args, **{"user": user, "group": AGENT, "extra_groups": [], **keywords})

    def shared(*args: Any, **keywords: Any) -> Any:
        folder = make(*args, **keywords)
        hand_over(Path(folder), user)
        return folder

    subprocess.Popen.__init__ = demoted  # type: ignore[method-assign]
    tempfile.mkdtemp = shared
    os.system = lambda command: subprocess.call(command, shell=True) << 8


def session(pid: int) -> int | None:
    """A process's session; None when it is gone."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def owner(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def main(test: str, ports: list[str]) -> int:
    if os.geteuid() == 0 and not keep(ports):
        end_agent_processes()
    folder = tempfile.mkdtemp()
    children = STRANGER if ports else AGENT
    if os.geteuid() == 0:
        demote_children(children)
    try:
        shutil.copytree(Path(test).parent, folder, dirs_exist_ok=True)  # with the data that lies beside it
        os.chmod(folder, 0o700)  # noqa: PTH101  (copytree gave it the mode of /tests)
        copy = str(Path(folder, Path(test).name))
        count = Count(children)
        options = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "-p", "no:cacheprovider"]
        code = pytest.main([*options, "--import-mode=importlib", "-v", copy], plugins=[count])
        print(f"{count.passed} of {count.collected} tests passed")
        return 0 if code == 0 and count.passed == count.collected > 0 else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
