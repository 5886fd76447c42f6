"""Looking into an MLflow store the way a user of MLflow would."""

from pathlib import Path
from typing import Any

from runner import schema
from runner.tracking.address import default_uri
from runner.tracking.base import RunInfo, Tracker
from runner.tracking.mlflow.quiet import quiet_mlflow
from runner.tracking.open import open_tracker

PARENT = "mlflow.parentRunId"


def tracker(outputs: Path, uri: str | None = None, timeout: float = 5.0) -> Tracker:
    """A tracker as a recipe opens it."""
    return open_tracker(schema.Tracking(uri=uri, timeout_seconds=timeout), outputs)


def make_store(folder: Path) -> str:
    """An empty SQLite store, which the UI would not make; its address."""
    from mlflow.tracking import MlflowClient

    with quiet_mlflow(10.0):
        MlflowClient(tracking_uri=default_uri(folder))
    return default_uri(folder)


class Store:
    """Reads one store."""

    def __init__(self, uri: str, experiment: str = "quickstart") -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=uri)
        known = self.client.get_experiment_by_name(experiment)
        self.experiment_id = known.experiment_id if known else ""
        self.artifact_location = known.artifact_location if known else ""

    def runs(self) -> list[Any]:
        return list(self.client.search_runs([self.experiment_id], order_by=["start_time ASC"]))

    def parents(self) -> list[Any]:
        return [run for run in self.runs() if PARENT not in run.data.tags]

    def children(self, parent: Any) -> dict[str, Any]:
        """Name -> run; fails when a name occurs twice."""
        found = [run for run in self.runs() if run.data.tags.get(PARENT) == parent.info.run_id]
        named = {run.info.run_name: run for run in found}
        assert len(named) == len(found), [run.info.run_name for run in found]
        return named

    def traces(self) -> list[Any]:
        return list(self.client.search_traces(locations=[self.experiment_id]))


def text_of(store: Store, run: Any, path: str, folder: Path) -> str:
    """A text artifact of a run."""
    folder.mkdir(exist_ok=True)
    return Path(store.client.download_artifacts(run.info.run_id, path, str(folder))).read_text()


def publish_all(tracker: Tracker, run: RunInfo, *reports: Any) -> None:
    """A whole run."""
    tracker.begin(run)
    for report in reports:
        tracker.publish(report)
    tracker.end("done")
