"""Where the real vLLM is, how it is started on this machine, and which processes belong to whom."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

from runner import schema

HOW_TO_GET_IT = (
    "no vLLM: set ENDLESS_VLLM to its program; the head of runner/training/cpu/requirements.txt says how to install it"
)
TINY_MODEL = Path(__file__).with_name("tiny_model.py")
ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class RealVllm:
    """An installed vLLM and a random model on disk."""

    command: tuple[str, ...]
    model: str

    def settings(self, *, context: int, name: str | None = None) -> schema.Model:
        """A recipe's model; ``context`` is its window in tokens."""
        args = ["--max-model-len", str(context), "--enforce-eager", "--dtype", "bfloat16"]
        vllm = schema.Vllm(command=list(self.command), args=args, env=ENV, start_seconds=280.0)
        return schema.Model(provider=schema.Provider.vllm, name=name or self.model, max_retries=0, vllm=vllm)

    def words(self, *, context: int) -> list[str]:
        """Overrides of ``model=vllm`` that make this vLLM play both roles."""
        vllm = self.settings(context=context).vllm
        env = ",".join(f"{name}:'{value}'" for name, value in vllm.env.items())
        found = ["model=vllm"]
        for role in ("generator", "solver"):
            found += [
                f"models.{role}.name={self.model}",
                f"models.{role}.vllm.command={json.dumps(vllm.command)}",
                f"models.{role}.vllm.args={json.dumps(vllm.args)}",
                f"+models.{role}.vllm.env={{{env}}}",
            ]
        return found


def find_command() -> tuple[str, ...] | None:
    """How ENDLESS_VLLM, or the ``vllm`` on PATH, is started; None when there is none."""
    program = shutil.which(os.environ.get("ENDLESS_VLLM") or "vllm")
    if program is None:
        return None
    python = python_of(program)
    asked = subprocess.run([python, "-c", "import importlib.metadata as m; m.version('vllm')"], capture_output=True)
    if asked.returncode == 0:
        return (program, "serve")
    return (python, "-m", "vllm.entrypoints.openai.api_server", "--model")  # the CPU build, see configs/llm/vllm.yaml


def python_of(program: str) -> str:
    """The interpreter of the environment a program is installed in."""
    return str(Path(program).with_name("python3"))


def make_model(command: tuple[str, ...], folder: Path) -> str:
    """A tiny random model, made with the interpreter that vLLM runs in."""
    subprocess.run([python_of(command[0]), str(TINY_MODEL), str(folder)], check=True, capture_output=True)
    return str(folder)


def descendants(pid: int) -> set[psutil.Process]:
    """All processes below one; empty when it is gone."""
    try:
        return set(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return set()


def alive(processes: set[psutil.Process]) -> list[str]:
    """Which of them still run, in words."""
    found = []
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {' '.join(process.cmdline())}")
        except psutil.NoSuchProcess:
            continue
    return found
