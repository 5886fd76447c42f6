"""The Apptainer backend: the local backend's sandboxes over a base image, in a container of Apptainer's."""

from pathlib import Path
from typing import Any

from runner.domain.errors import EndlessError
from runner.sandbox.apptainer import base, probe
from runner.sandbox.apptainer.code import ensure_code
from runner.sandbox.apptainer.command import BASE_MOUNT, GRADER_MOUNT, OF_APPTAINER
from runner.sandbox.apptainer.nursery import ApptainerNursery, Folders
from runner.sandbox.base import Probe
from runner.sandbox.local.backend import LocalBackend
from runner.sandbox.local.limits import not_enforced, remedy
from runner.sandbox.local.nursery import Nursery
from runner.sandbox.runtime import ensure_runtime
from runner.schema import Sandbox as Settings


class ApptainerBackend(LocalBackend):
    """See ``base.Backend``. Everything that is not overridden here is as in the local backend."""

    name = "apptainer"

    def __init__(self, config: Settings, cache: Path, run_label: str) -> None:
        """See ``LocalBackend``. Starts nothing yet."""
        self._folder = cache / "apptainer"
        super().__init__(config, cache, run_label)

    def probe(self) -> Probe:
        """See ``base.Backend.probe``: starts a container without an image and makes namespaces in it."""
        try:
            version, many = probe.version(), probe.many_users()
        except (EndlessError, OSError) as error:
            return Probe(ok=False, detail=str(error), remedy=remedy())
        users = "with newuidmap" if many else "with a single user"
        return Probe(ok=True, detail=f"Apptainer {version}, {users}", limits=not_enforced(single=not many, image=True))

    def reap(self) -> int:
        """See ``LocalBackend.reap``; also removes half-made base images of dead processes."""
        base.remove_abandoned(self._folder / "base")
        return super().reap()

    def _make_nursery(self) -> Nursery:
        return ApptainerNursery(self._folders)

    def _folders(self) -> Folders:
        image = base.ensure_base(self._config, self._folder / "base").resolve()
        return Folders(
            base=image,
            partition=base.partition(image) if self._config.sif else None,
            grader=ensure_runtime(self._cache).resolve(),
            code=ensure_code(self._folder / "code").resolve(),
        )

    def _settings(self, *, building: bool, network: bool = False, grader: str = "") -> dict[str, Any]:
        """See ``LocalBackend._settings``. What Apptainer adds to an image cannot be taken out of a .sif, so each
        sandbox does without it."""
        settings = super()._settings(building=building, network=network, grader=grader)
        return settings | {"hidden": [*OF_APPTAINER, "dev/*"] if self._config.sif else []}

    def _root(self) -> str:
        return BASE_MOUNT

    def _runtime(self) -> str:
        return GRADER_MOUNT

    def _network(self) -> bool:
        return self._config.build_network != "none"

    def _origin(self) -> str:
        return base.base_key(self._config)
