"""From the recipe's ``tracking`` section to a tracker."""

from pathlib import Path

from runner import schema
from runner.tracking.address import default_uri
from runner.tracking.base import NullTracker, Tracker


def store_uri(config: schema.Tracking, outputs: Path) -> str:
    """The address of the store a recipe tracks to: its own, or the one of its outputs folder."""
    return config.uri or default_uri(outputs)


def open_tracker(config: schema.Tracking, outputs: Path) -> Tracker:
    """A tracker for this recipe. Imports and connects nothing yet; never raises."""
    if not config.enabled:
        return NullTracker()
    from runner.tracking.mlflow.tracker import MlflowTracker

    uri = store_uri(config, outputs)
    return MlflowTracker(uri=uri, timeout=config.timeout_seconds, episode_traces=config.episode_traces)
