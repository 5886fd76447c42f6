"""The Python that has OpenRLHF, torch and vLLM installed: our own environment need not.

Set ENDLESS_TRAINER to it (``/path/to/trainer/bin/python``). Beside OpenRLHF (extra ``train``, or the pins in
runner/training/cpu/requirements.txt) it needs what a rollout worker needs (docker, jinja2, psutil, requests), and
pytest with hypothesis for these tests.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def trainer_python() -> str:
    """Its path; skips the test where there is none."""
    python = os.environ.get("ENDLESS_TRAINER", "")
    if not python:
        pytest.skip("ENDLESS_TRAINER is not set: the Python that has OpenRLHF installed")
    return python


def trainer_environment() -> dict[str, str]:
    """Of a process of the trainer's, without a GPU: OpenRLHF is patched as it is in training."""
    paths = [ROOT / "runner" / "training" / "path", ROOT, ROOT / "tests"]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "ENDLESS_DEVICE": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
    }


def run_tests(file: Path) -> subprocess.CompletedProcess[str]:
    """Run a file of tests in the trainer's Python."""
    with tempfile.TemporaryDirectory() as scratch:  # the sockets of a vLLM that was killed stay behind
        return _run(file, {**trainer_environment(), "TMPDIR": scratch})


def _run(file: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    options = ["-q", "-x", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(file.parent), "--tb=short"]
    return subprocess.run(
        [trainer_python(), "-m", "pytest", *options, str(file)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=file.parent,
        check=False,
    )
