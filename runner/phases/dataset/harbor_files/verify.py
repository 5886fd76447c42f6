"""Runs one test file where the agent's files cannot reach it; exits with 0 only if every collected test passed.

Started by test.sh with ``python3 -I``: no environment, no user site, no working directory on the path. The test is
copied to a folder that only root can read, away from any conftest.py or pytest.ini.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

AGENT = 1000


class Count:
    """Passing is every collected test passing, not merely nothing failing."""

    def __init__(self) -> None:
        self.collected = 0
        self.passed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = len(session.items)

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


def main(test: str) -> int:
    if os.geteuid() == 0:
        end_agent_processes()
    folder = tempfile.mkdtemp()
    try:
        copy = shutil.copy(test, folder)
        count = Count()
        options = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "-p", "no:cacheprovider"]
        code = pytest.main([*options, "--import-mode=importlib", "-v", copy], plugins=[count])
        print(f"{count.passed} of {count.collected} tests passed")
        return 0 if code == 0 and count.passed == count.collected > 0 else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
