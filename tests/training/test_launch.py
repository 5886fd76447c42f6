"""A trainer's process: its death and its silence have a reason, and nothing of it stays behind."""

import os
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.real_vllm import alive

from runner.training.errors import TrainerError
from runner.training.launch import Trainer, started


def launch(tmp_path: Path, program: str, silence: float = 60.0):  # type: ignore[no-untyped-def]
    words = [sys.executable, "-c", program]
    return started(words, os.environ, folder=tmp_path, log=tmp_path / "trainer.log", signs=[], silence=silence)


def wait_until(trainer: Trainer, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while trainer.running() and time.monotonic() < end:
        time.sleep(0.05)


def test_a_trainer_that_ends_well_has_ended(tmp_path: Path) -> None:
    with launch(tmp_path, "print('trained')") as trainer:
        wait_until(trainer)
        assert not trainer.running()
    assert "trained" in (tmp_path / "trainer.log").read_text()


def test_a_dead_trainer_leaves_its_last_words(tmp_path: Path) -> None:
    program = "raise SystemExit('out of memory on GPU 3')"
    last_words = pytest.raises(TrainerError, match=r"exit code 1; .*\n.*out of memory on GPU 3")
    with launch(tmp_path, program) as trainer, last_words:
        wait_until(trainer)


def test_a_silent_trainer_is_taken_for_hung(tmp_path: Path) -> None:
    program = "import time; print('step 1', flush=True); time.sleep(600)"
    hung = pytest.raises(TrainerError, match=r"nothing for \d+ s \(training.silence_seconds\)")
    with launch(tmp_path, program, silence=1.0) as trainer, hung:
        wait_until(trainer)


def test_everything_a_trainer_started_ends_with_the_context(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    log = tmp_path / "trainer.log"
    with launch(tmp_path, program) as trainer:
        while trainer.running() and not log.read_text().strip():
            time.sleep(0.05)
        worker = {psutil.Process(int(log.read_text()))}
        assert alive(worker)
    assert not alive(worker)
