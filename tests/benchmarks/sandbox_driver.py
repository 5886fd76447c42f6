"""A tool's process in the sandbox benchmark: one request, one answer (the language is ``peers/protocol.py``'s)."""

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from sandbox_setup import Tool

HERE = Path(__file__).resolve().parent


class Driver:
    """A tool's process: one request, one answer."""

    def __init__(self, tool: Tool, python: str, setup: dict[str, Any], log: Path) -> None:
        self._words = [python, "-m", f"peers.{tool.driver}", json.dumps(setup)]
        self._places = [HERE.parents[1]] if tool.is_ours else []
        self._folder, self._log = setup["scratch"], log
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer, or ``{"error": ...}`` when the tool fails, dies or takes longer."""
        process = self._running()
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.close()
                return {"error": f"no answer within {seconds:.0f} s"}
            chunk = os.read(process.stdout.fileno(), 1 << 20)
            if not chunk:
                self.close()
                return {"error": f"its process ended: {_last_line(self._log)}"}
            line += chunk
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process, which ends by itself where it has nothing to do. Idempotent."""
        if self._process is None:
            return
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            places = [HERE, *self._places]
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._words,
                    cwd=self._folder,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, places))},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
        return self._process


def _last_line(log: Path) -> str:
    return (log.read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"])[-1][:300]
