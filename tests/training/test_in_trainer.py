"""Tests that run in the trainer's own Python, with the real OpenRLHF, torch and tokenizers."""

from pathlib import Path

import pytest
from support.real_trainer import run_tests

CHECKS = sorted((Path(__file__).parent / "in_trainer").glob("check_*.py"))


@pytest.mark.trainer
@pytest.mark.live
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("file", CHECKS, ids=lambda path: path.stem)
def test_in_the_trainers_python(file: Path) -> None:
    done = run_tests(file)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
