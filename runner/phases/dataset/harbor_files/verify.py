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
STARTED_WITH_THE_CONTAINER = 1.0  # seconds


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
    """Kill what the agent left running; what started with the container (its main process, services) stays."""
    started = {int(path.parent.name): times(path) for path in Path("/proc").glob("[0-9]*/stat")}
    begin = started.get(1) or 0.0
    for pid, start in started.items():
        if start is not None and start - begin > STARTED_WITH_THE_CONTAINER and owner(pid) == AGENT:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def times(stat: Path) -> float | None:
    """When a process started, in seconds after boot; None when it is gone."""
    try:
        fields = stat.read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


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
