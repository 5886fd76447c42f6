"""What a run already published, and where: ``tracking.json`` in the run's folder.

Keyed by the store's address, so that pointing a recipe at another server publishes everything there again. Losing
the file loses nothing: runs are then found by their tags, and their phases are published once more.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runner.tracking.address import shown

FILE = "tracking.json"
_VERSION = 1


@dataclass(kw_only=True)
class PhaseMemory:
    """One phase's child run. Mutable: it is filled in while the phase runs."""

    run_id: str
    fingerprint: str = ""
    published: bool = False
    step: int = 0
    """The last step of its progress metrics, which must not run backwards after a resume."""
    curve: int = 0
    """The last training step whose figures are there."""


@dataclass(kw_only=True)
class StoreMemory:
    """What one store has of this run."""

    run_id: str = ""
    status: str = ""
    """MLflow's word for how the parent run stands: RUNNING, FINISHED, FAILED, KILLED."""
    sweep: str = ""
    """The sweep under which the run is shown."""
    phases: dict[str, PhaseMemory] = field(default_factory=dict)

    def published(self, phase: str, fingerprint: str) -> bool:
        known = self.phases.get(phase)
        return known is not None and known.published and known.fingerprint == fingerprint

    def forget(self) -> None:
        """The store lost the run: start over there."""
        self.run_id, self.status, self.sweep, self.phases = "", "", "", {}


class Memory:
    """Reads and writes the file; one writer thread uses it."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._file = folder / FILE
        self._key = shown(uri)
        self.store = _store(self._read().get(self._key, {}))

    def save(self) -> None:
        """Write atomically; other stores' entries stay. Raises OSError."""
        stores = self._read() | {self._key: asdict(self.store)}
        part = self._file.with_suffix(".json.part")
        part.write_text(json.dumps({"version": _VERSION, "stores": stores}, indent=2), encoding="utf-8")
        part.replace(self._file)

    def _read(self) -> dict[str, Any]:
        try:
            stores = json.loads(self._file.read_text(encoding="utf-8"))["stores"]
            return dict(stores)
        except (OSError, ValueError, KeyError, TypeError):
            return {}  # absent or spoilt: what it knew is found again by tags


def _store(entry: dict[str, Any]) -> StoreMemory:
    try:
        phases = {name: PhaseMemory(**phase) for name, phase in entry.get("phases", {}).items()}
        return StoreMemory(**(entry | {"phases": phases}))
    except (TypeError, AttributeError):
        return StoreMemory()
