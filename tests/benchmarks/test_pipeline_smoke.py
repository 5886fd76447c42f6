"""The benchmarks run, and compute what they say they compute. Their figures are in README.md."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_a_tiny_benchmark_ends_with_its_table() -> None:
    words = ["--tasks=3", "--concurrency=2", "--latency=0.02", "--tracking=off", "--repeat=1"]
    done = subprocess.run(
        [sys.executable, str(HERE / "pipeline.py"), *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {name: line for line in done.stdout.splitlines() for name in [line.split("  ")[0]]}
    assert "33 calls of 0.02 s, 2 at once" in done.stdout
    # 9 calls in five rounds of two, then 24 in twelve: 17 rounds of 0.02 s
    assert rows["ideal time"].split()[-2:] == ["0.34", "s"]
    assert rows["calls in flight, at most"].split()[-1] == "2"
    assert float(rows["ratio: pipeline / ideal (aim: 1.15)"].split()[-1]) > 1
