"""Trained models in MLflow's registry: by reference, with their lineage; the weights stay on disk."""

from collections.abc import Mapping
from typing import Any

from runner.tracking.base import ModelRef


def register(client: Any, model: ModelRef, run_id: str, tags: Mapping[str, str]) -> None:
    """Make a version of ``model`` that points to its folder; once for each folder."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(model.name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = model.path.absolute().as_uri()
    known = client.search_model_versions(f"name = '{model.name}'")
    if not any(version.source == source for version in known):
        client.create_model_version(model.name, source=source, run_id=run_id, tags=dict(tags))
