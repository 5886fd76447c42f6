"""The Python that has Harbor installed, and Harbor's jobs on the tests' own engine: our own Python may be too old.

Set ENDLESS_HARBOR to it (``/path/to/harbor/bin/python``): a Python >= 3.12 with the extra ``harbor`` of this package.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.accounts import account
from support.loopback import Call

from runner.domain.task import Task
from runner.evaluation.harbor import HarborRun
from runner.evaluation.harbor.keeper import PROJECT
from runner.schema import Model, Provider
from runner.schema_evaluation import Harness, TerminalBench

TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = "support.harbor_engine:BridgelessDocker"
DONE = "<think>It is done.</think><action>done</action>"


def harbor_python() -> str:
    """Its path; skips the test where there is none."""
    python = os.environ.get("ENDLESS_HARBOR", "")
    if not python:
        pytest.skip("ENDLESS_HARBOR is not set: the Python (3.12 or later) that has Harbor installed")
    return python


def command(text: str) -> str:
    """A reply that asks for a command."""
    return f"<think>I try.</think><command>{text}</command>"


def job(exported: Path, folder: Path, url: str, *, harness: Harness | None = None, **bench: Any) -> HarborRun:
    """A job on a folder of tasks, whose model a loopback server speaks for."""
    return HarborRun(
        bench=TerminalBench(
            **{
                "path": str(exported),
                "attempts": 1,
                "concurrency": 2,
                "environment": ENVIRONMENT,
                "python": harbor_python(),
                **bench,
            }
        ),
        harness=harness or Harness(),
        model=Model(provider=Provider.openai, name="loopback", base_url=f"{url}/v1"),
        folder=folder,
        account=account(folder),
        retries=0,
    )


def scripts(replies: Mapping[str, Sequence[str]], tasks: Mapping[str, Task]) -> Callable[[Call], str]:
    """A loopback server's ``reply``: each task's own replies, one after another."""

    def reply(call: Call) -> str:
        asked = next(text for role, text in call.messages if role == "user")
        name = next(name for name, task in tasks.items() if task.instruction.strip() in asked)
        said = sum(role == "assistant" for role, _ in call.messages)
        return replies[name][said]

    return reply


def containers(folder: Path, address: str) -> list[str]:
    """The compose projects of a job's trials that still have a container."""
    trials = tuple(path.name.lower() for path in folder.glob("harbor/*__*"))
    template = '{{.Label "' + PROJECT + '"}}'
    done = subprocess.run(
        ["docker", "ps", "--all", "--filter", f"label={PROJECT}", "--format", template],
        env={**os.environ, "DOCKER_HOST": address},
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in done.stdout.split() if trials and name.startswith(trials)]
