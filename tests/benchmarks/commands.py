"""How long a person waits for commands that have nothing to run: the fastest of some tries, and its CPU.

    python tests/benchmarks/commands.py [--tries 5] [key=value ...]

The quickstart first runs once, whole, in a folder of its own (``key=value`` may choose its sandbox); the second run
finds everything done.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pipeline import command
from rich.console import Console
from rich.table import Table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=5)
    parser.add_argument("overrides", nargs="*", help="of the quickstart, such as sandbox=docker")
    arguments = parser.parse_args()
    table = Table("command", "aim", "seconds", "CPU seconds", box=None, pad_edge=False)
    endless = [sys.executable, "-m", "runner.cli"]
    with tempfile.TemporaryDirectory(prefix="endless-benchmark-") as folder:
        run = [*endless, "run", "quickstart", *arguments.overrides]
        subprocess.run(run, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for name, aim, words in (
            ("endless --help", "0.5", [*endless, "--help"]),
            ("endless plan quickstart", "", [*endless, "plan", "quickstart", *arguments.overrides]),
            ("endless run quickstart, all done", "5", run),
        ):
            seconds, cpu = min(_time(words, Path(folder)) for _ in range(arguments.tries))
            table.add_row(name, aim, f"{seconds:.2f}", f"{cpu:.2f}")
    Console(width=120).print(table)


def _time(words: list[str], folder: Path) -> tuple[float, float]:
    began = time.monotonic()
    cpu = command(words, folder)
    return time.monotonic() - began, cpu


if __name__ == "__main__":
    main()
