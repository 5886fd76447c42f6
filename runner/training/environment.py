"""The environment variables of a trainer's processes: what was compiled, and what only this machine knows."""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import runner
from runner.domain.errors import MissingRequirement
from runner.schema import Config
from runner.schema_training import Device
from runner.training.compile import Command

_ROOT = Path(runner.__file__).parent.parent
_PATH = Path(__file__).parent / "path"
DEVICE = "ENDLESS_DEVICE"


def trainer_environment(
    config: Config, command: Command, *, extra: Mapping[str, str], compiled: Path, scratch: Path
) -> dict[str, str]:
    """The whole environment of a trainer.

    The keys of the models that made and filtered the tasks stay out of it; so does an empty CUDA_VISIBLE_DEVICES,
    which vLLM does not survive. ``compiled`` keeps DeepSpeed's optimizer; ``scratch`` is a folder with a short
    name, because the sockets of Ray and of vLLM lie in it, which a killed vLLM does not remove.
    """
    secret = {model.api_key_env for model in (config.models.generator, config.models.solver)}
    inherited = {name: value for name, value in os.environ.items() if name not in secret}
    if not inherited.get("CUDA_VISIBLE_DEVICES"):
        inherited.pop("CUDA_VISIBLE_DEVICES", None)
    ours = {
        DEVICE: config.training.device.name,
        "MASTER_PORT": str(free_port()),
        "RAY_TMPDIR": str(scratch),
        "TMPDIR": str(scratch),
        "TORCH_EXTENSIONS_DIR": str(compiled),
        "PYTHONPATH": python_path(inherited.get("PYTHONPATH", "")),
        "PYTHONUNBUFFERED": "1",
    }
    return {**command.env, **inherited, **config.training.env, **ours, **extra}


def ours() -> tuple[str, ...]:
    """The names that a cluster's nodes need from here; folders among them lie on a shared file system."""
    return (DEVICE, "TORCH_EXTENSIONS_DIR", "PYTHONPATH", "PYTHONUNBUFFERED")


def python_path(inherited: str) -> str:
    """Our ``sitecustomize`` first; then this package, when it is not installed but lies in its own folder."""
    own = [] if _ROOT.name in ("site-packages", "dist-packages") else [str(_ROOT)]
    return os.pathsep.join([str(_PATH), *own, *([inherited] if inherited else [])])


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_compiler(config: Config) -> None:
    """DeepSpeed compiles its optimizer for CPUs. Raises MissingRequirement."""
    if (config.training.device is Device.cpu or config.training.adam_offload) and not shutil.which("g++"):
        raise MissingRequirement("training on a CPU needs a C++ compiler: install g++ (Debian: apt install g++)")
