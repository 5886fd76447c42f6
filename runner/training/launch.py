"""A trainer's process: started under a lifeline, watched, and never left behind.

The lifeline ends the trainer with everything it started (Ray, vLLM, workers) when this process ends, however it ends.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.llm import lifeline
from runner.llm.server_log import last_lines
from runner.store.jsonl import storage_errors
from runner.store.scratch import scratch
from runner.training.errors import TrainerError

_STOP_SECONDS = 60.0
_TAIL_LINES = 15


class Trainer:
    """One running trainer."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, signs: Sequence[Path], silence: float) -> None:
        """``signs`` are files and folders whose change shows that it lives."""
        self._process, self._log, self._silence = process, log, silence
        self._signs = (log, *signs)
        self._last_sign, self._seen = time.monotonic(), 0.0

    def running(self) -> bool:
        """Whether it still works. Raises TrainerError when it died, or said nothing for too long."""
        code = self._process.poll()
        if code == 0:
            return False
        if code is not None:
            raise TrainerError(f"the trainer ended with exit code {code}; {self.last_words()}")
        self._listen()
        return True

    def last_words(self) -> str:
        """The end of its log, for an error message."""
        lines = "\n".join(last_lines(self._log, _TAIL_LINES)) or "(nothing)"
        return f"the last lines of {self._log}:\n{lines}"

    def _listen(self) -> None:
        latest = max((path.stat().st_mtime for path in self._signs if path.exists()), default=0.0)
        if latest != self._seen:
            self._seen, self._last_sign = latest, time.monotonic()
        silent = time.monotonic() - self._last_sign
        if silent > self._silence:
            raise TrainerError(
                f"the trainer has written nothing for {silent:.0f} s (training.silence_seconds) and was ended; "
                f"run the same command again to go on from its last checkpoint; {self.last_words()}"
            )

    def stop(self) -> None:
        """End it with all its processes. Idempotent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def started(
    words: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path, signs: Sequence[Path], silence: float
) -> Iterator[Trainer]:
    """Start a trainer in ``folder``; when the context is left it is gone. Raises StorageError, TrainerError."""
    with storage_errors(log), log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-P", str(Path(lifeline.__file__)), *words],
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=folder,
            start_new_session=True,
        )
    trainer = Trainer(process, log, signs, silence)
    try:
        yield trainer
    finally:
        trainer.stop()


def run_program(python: str, module: str, *arguments: str, env: Mapping[str, str]) -> str:
    """Run a module of ours with the trainer's Python; what it printed. Raises TrainerError with its last line."""
    with scratch("trainer") as temporary:  # PyTorch makes a folder wherever it is imported
        env = {**os.environ, "TMPDIR": str(temporary), **env}
        words = [python, "-m", module, *arguments]
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["(nothing)"]
        raise TrainerError(f"{module.rpartition('.')[2]} failed: {said[0]}")
    return done.stdout.strip()
