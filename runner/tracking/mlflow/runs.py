"""Finds or makes the experiment and the runs: the sweep, the run below it, the phases below that."""

import getpass
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
KEY = "endless.key"
SWEEP = "endless.sweep"
PHASE = "endless.phase"
FINGERPRINT = "endless.fingerprint"
_MANY = 1000


class Runs:
    """One experiment's runs. Raises whatever MLflow raises."""

    def __init__(self, uri: str, experiment: str, artifacts: Path | None) -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self.experiment_id = self._experiment(experiment, artifacts)

    def _experiment(self, name: str, artifacts: Path | None) -> str:
        known = self.client.get_experiment_by_name(name)
        if known is None:
            place = None if artifacts is None else (artifacts / _folder_name(name)).as_uri()
            return str(self.client.create_experiment(name, artifact_location=place))
        if known.lifecycle_stage != "active":
            self.client.restore_experiment(known.experiment_id)
        return str(known.experiment_id)

    def get(self, run_id: str) -> Any | None:
        """The run, or None when this store has no such run or it was deleted."""
        from mlflow.exceptions import MlflowException

        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def find(self, tag: str, value: str) -> list[Any]:
        """Runs with this tag, the oldest first."""
        quote = '"' if "'" in value else "'"
        query = f"tags.`{tag}` = {quote}{value}{quote}"
        return list(
            self.client.search_runs([self.experiment_id], query, max_results=_MANY, order_by=["start_time ASC"])
        )

    def create(self, name: str, tags: Mapping[str, str], start_ms: int | None = None) -> str:
        """A new run, RUNNING; its id. It began now, or at ``start_ms`` (milliseconds since 1970)."""
        own = {"mlflow.source.name": "endless run", "mlflow.source.type": "LOCAL", "mlflow.user": _user()}
        run = self.client.create_run(self.experiment_id, start_ms, own | dict(tags), run_name=name)
        return str(run.info.run_id)

    def sweep(self, name: str) -> str:
        """The run above a sweep's variants: the oldest of that name, or a new one."""
        known = [run for run in self.find(SWEEP, name) if PARENT not in run.data.tags]
        return known[0].info.run_id if known else self.create(name, {SWEEP: name})

    def set_status(self, run_id: str, status: str) -> None:
        """RUNNING, FINISHED, FAILED or KILLED; a final status also sets the end time."""
        if status == "RUNNING":
            self.client.update_run(run_id, status=status)
        else:
            self.client.set_terminated(run_id, status=status)


def _folder_name(experiment: str) -> str:
    return re.sub(r"[^\w.-]+", "-", experiment).strip("-.") or "experiment"


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, as in many containers
        return ""
