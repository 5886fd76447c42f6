"""Which flags the trainer takes: asked of the installed OpenRLHF, or of the table of the one version we know.

A run asks the installed one and refuses every other version: flags that were renamed or mean something else would
train another experiment. A plan, on a laptop, has the table in ``flags/``, made from the same source by
``python -m runner.training.compile.stored PYTHON``.
"""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from runner.domain.errors import MissingRequirement
from runner.schema import Config
from runner.schema_training import Device
from runner.training.compile.flag_table import Option, read_options

VERSION = "0.11.2"
"""The OpenRLHF that this project was written and tested against."""
GPU_REMEDY = "pip install 'endless-terminals[train]', or name a Python that has it in training.python"
CPU_REMEDY = (
    "pip install --no-deps -r runner/training/cpu/requirements.txt in an environment of its own, "
    "and name its Python in training.python"
)

_ASK = """
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("openrlhf")
version = importlib.metadata.version("openrlhf") if spec else ""
print(json.dumps([version, list(spec.submodule_search_locations) if spec else []]))
"""
_ASK_SECONDS = 60.0


class Program(StrEnum):
    """A program of OpenRLHF's."""

    PPO = "train_ppo_ray"
    SFT = "train_sft"

    @property
    def module(self) -> str:
        return f"openrlhf.cli.{self.value}"


Flags = Mapping[Program, Mapping[str, Option]]


@dataclass(frozen=True, kw_only=True)
class FlagTable:
    """Every option of both programs."""

    flags: Flags
    source: str
    """What flags are checked against, in words."""
    installed: bool


def known_flags(config: Config) -> FlagTable:
    """The installed trainer's flags; where there is none, those of the known version, which says so.

    Raises MissingRequirement for an installed version that is not the known one.
    """
    found = find_trainer(config.training.python)
    if found is None:
        return stored_flags()
    return _checked(*found)


def installed_flags(config: Config) -> FlagTable:
    """The installed trainer's flags. Raises MissingRequirement when it is absent, or of another version."""
    found = find_trainer(config.training.python)
    if found is None:
        raise MissingRequirement(
            f"training needs OpenRLHF {VERSION}, which {config.training.python or 'this Python'} does not have: "
            f"{remedy(config.training.device)}"
        )
    return _checked(*found)


def remedy(device: Device) -> str:
    """How to get the trainer."""
    return CPU_REMEDY if device is Device.cpu else GPU_REMEDY


@cache
def stored_flags() -> FlagTable:
    """The table that travels with this package."""
    rows = json.loads(STORED.read_text(encoding="utf-8"))
    return FlagTable(
        flags={program: _from_rows(rows[program.value]) for program in Program},
        source=f"against our table of OpenRLHF {VERSION}, which is not installed here",
        installed=False,
    )


STORED = Path(__file__).with_name("flags") / f"openrlhf-{VERSION}.json"


def _from_rows(rows: Iterable[Mapping[str, object]]) -> dict[str, Option]:
    options = (Option(**{**row, "choices": tuple(row.get("choices", ()))}) for row in rows)  # type: ignore[arg-type]
    return {option.name: option for option in options}


@cache
def _checked(version: str, folder: Path) -> FlagTable:
    if version != VERSION:
        raise MissingRequirement(
            f"OpenRLHF {version} is installed, but only {VERSION} is known: flags may mean something else in another "
            f"version; pip install openrlhf=={VERSION}"
        )
    return FlagTable(flags=read_flags(folder), source=f"against the installed OpenRLHF {version}", installed=True)


def read_flags(folder: Path) -> Flags:
    """The flags of an installed ``openrlhf`` package's two programs, from their source."""
    return {
        program: read_options((folder / "cli" / f"{program.value}.py").read_text(encoding="utf-8"))
        for program in Program
    }


@cache
def find_trainer(python: str | None) -> tuple[str, Path] | None:
    """Version and folder of the OpenRLHF that a Python has; None without one. Imports nothing of it."""
    version, folders = _here() if python in (None, sys.executable) else _ask(str(python))
    return (version, Path(folders[0])) if folders else None


def _here() -> tuple[str, list[str]]:
    spec = importlib.util.find_spec("openrlhf")
    if spec is None or not spec.submodule_search_locations:
        return "", []
    return importlib.metadata.version("openrlhf"), list(spec.submodule_search_locations)


def _ask(python: str) -> tuple[str, list[str]]:
    try:
        answer = subprocess.run(
            [python, "-P", "-c", _ASK], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True
        )
        version, folders = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", "") or str(error)
        last = said.strip().splitlines()[-1:] or [""]
        raise MissingRequirement(f"training.python: {python} does not start: {last[0]}") from error
    return str(version), [str(folder) for folder in folders]
