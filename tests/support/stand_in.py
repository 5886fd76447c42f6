"""A program in Harbor's place, which leaves the files that a job leaves."""

import json
from pathlib import Path
from typing import Any

BEGIN = "mkdir -p harbor && cp job.json harbor/config.json && echo '{\"n_total_trials\": 2}' >harbor/result.json"


def stand_in(folder: Path, *commands: str) -> Path:
    """A Python that answers what it is asked about itself, then, as a job of two trials, does these commands."""
    folder.mkdir(exist_ok=True)
    python = folder / "python"
    body = "\n".join(["set -e", 'echo "$@" >>words', BEGIN, *commands])
    answers = "*version_info*) echo 3 12;;\n*metadata*) ;;\n"
    python.write_text(f'#!/bin/bash\ncase "$2" in\n{answers}*)\n{body}\n;;\nesac\n')
    python.chmod(0o755)
    return python


def trial(name: str, **keys: Any) -> str:
    """A command that leaves a finished trial."""
    row = json.dumps({"task_name": name[:-3], "started_at": name, **keys})
    return f"mkdir -p harbor/{name}; echo '{row}' >harbor/{name}/result.json"


def rewarded(value: float) -> dict[str, Any]:
    return {"verifier_result": {"rewards": {"reward": value}}}
