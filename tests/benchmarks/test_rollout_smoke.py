"""The rollout benchmark runs, and computes what it says it computes. Its figures are in README.md."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_a_tiny_rollout_ends_with_its_table() -> None:
    words = ["--backends=null", "--live=2", "--waves=3", "--tokens=40", "--speed=400"]
    done = subprocess.run(
        [sys.executable, str(HERE / "rollout.py"), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split("  ")[0]: line.split()[-1] for line in done.stdout.splitlines()}
    assert rows["episodes"] == "6"
    # six episodes of six replies of 40 tokens at 400 a second, two at once: about 1.8 s
    ideal = float(next(line.split()[-2] for line in done.stdout.splitlines() if line.startswith("ideal")))
    assert 1.2 < ideal < 2.4
    assert 0 <= float(rows["engine waits (aim: 10%)"].rstrip("%")) < 100
