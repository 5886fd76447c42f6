"""``endless doctor``: what works on this machine, what is missing, and how to get it."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from runner.cli.console import console
from runner.domain.errors import MissingRequirement

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
TOOLS = ("bash", "git", "tar", "python3", "curl", "jq", "sqlite3")
SMALLEST_FREE_GB = 10


@dataclass(frozen=True)
class Finding:
    """One line of the report. ``ok`` None: optional and absent."""

    what: str
    ok: bool | None
    detail: str
    remedy: str = ""


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    marks = {True: "[green]ok[/]", False: "[red]missing[/]", None: "[yellow]absent[/]"}
    findings = [*_python(), *_sandboxes(), *_models(), *_machine(), *_extras()]
    for found in findings:
        remedy = f"\n[dim]-> {escape(found.remedy)}[/]" if found.remedy else ""
        table.add_row(found.what, marks[found.ok], escape(found.detail) + remedy)
    screen.print(table)
    works = any(f.ok for f in findings if f.what.startswith("sandbox"))
    screen.print(f"\n{'this machine can run recipes' if works else 'no sandbox works here: recipes cannot run'}")
    return 0 if works and all(f.ok is not False for f in findings if f.what == "Python") else 1


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 12)
    yield Finding("Python", fits, version, "" if fits else "use Python 3.11 or 3.12")


def _sandboxes() -> Iterator[Finding]:
    from runner.sandbox.registry import probe_all

    for name, probe in probe_all().items():
        limits = "".join(f"\nnot enforced: {limit}" for limit in probe.limits) if probe.ok else ""
        yield Finding(f"sandbox {name}", probe.ok or None, probe.detail + limits, probe.remedy)
    absent = [tool for tool in TOOLS if shutil.which(tool, path="/usr/local/bin:/usr/bin:/bin") is None]
    detail = f"absent: {', '.join(absent)}" if absent else "all there"
    remedy = f"the local sandbox shows this machine's own tools: install {' '.join(absent)}" if absent else ""
    yield Finding("tools for local", None if absent else True, detail, remedy)


def _models() -> Iterator[Finding]:
    for name in KEYS:
        there = bool(os.environ.get(name))
        yield Finding(name, there or None, "set" if there else "not set", "" if there else f"export {name}=...")


def _machine() -> Iterator[Finding]:
    import psutil

    free = shutil.disk_usage(Path.cwd()).free / 1e9
    enough = free >= SMALLEST_FREE_GB
    yield Finding("disk", enough, f"{free:.0f} GB free here", "" if enough else "images and episodes need more room")
    memory = psutil.virtual_memory().total / 1e9
    yield Finding("memory", True, f"{memory:.0f} GB, {os.cpu_count()} cores")
    yield _gpus()


def _gpus() -> Finding:
    remedy = "training and vLLM on GPUs need an NVIDIA driver; without one use models behind an address"
    if shutil.which("nvidia-smi") is None:
        return Finding("GPUs", None, "none", remedy)
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    found = subprocess.run(query, capture_output=True, text=True, timeout=20, check=False)
    names = "; ".join(found.stdout.split("\n")).strip("; ")
    return Finding("GPUs", True, names) if found.returncode == 0 and names else Finding("GPUs", None, "none", remedy)


def _extras() -> Iterator[Finding]:
    """What training and benchmarks need, in the Pythons that the environment names, or in this one."""
    from runner.training.compile.parser import CPU_REMEDY, GPU_REMEDY

    python = os.environ.get("ENDLESS_TRAINER") or sys.executable
    versions, remedy = _versions(python), f"{GPU_REMEDY}; without a GPU: {CPU_REMEDY}, or export it as ENDLESS_TRAINER"
    for name in ("openrlhf", "vllm"):
        there = name in versions
        detail = f"{versions[name]}, in {python}" if there else f"not in {python}"
        yield Finding(name, there or None, detail, "" if there else remedy)
    compiler = shutil.which("g++")
    remedy = "" if compiler else "training on a CPU compiles one file: install g++"
    yield Finding("g++", True if compiler else None, compiler or "none", remedy)
    yield _harbor()


def _versions(python: str) -> dict[str, str]:
    """Of the trainer in this Python; nothing where it does not start."""
    from runner.training.environment import python_path
    from runner.training.errors import TrainerError
    from runner.training.launch import run_program

    try:
        said = run_program(python, "runner.training.versions", env={"PYTHONPATH": python_path("")})
    except (TrainerError, OSError):
        return {}
    found: dict[str, str] = json.loads(said.splitlines()[-1])
    return found


def _harbor() -> Finding:
    from runner.evaluation.harbor.program import require_harbor

    try:
        python = require_harbor(os.environ.get("ENDLESS_HARBOR"), os.environ)
    except MissingRequirement as error:
        why, _, remedy = str(error).partition("; ")
        return Finding("harbor", None, why, f"for TerminalBench: {remedy}, or export it as ENDLESS_HARBOR")
    return Finding("harbor", True, f"in {python}")
