"""MLflow within bounds: silent on the console, no telemetry, and bounded waiting.

MLflow takes these settings from the environment only, so they are set for as long as the writer thread lives and
then put back.
"""

import logging
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

_ALWAYS = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_JITTER": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
_WARNERS = r"(mlflow|sqlalchemy|alembic)(\.|$)"
"""Modules whose Python warnings are MLflow's affair and not our user's."""
_LOGGERS = ("mlflow", "alembic", "urllib3.connectionpool", "urllib3.util.retry")


def settings(timeout: float) -> dict[str, str]:
    """The environment for MLflow; ``timeout`` in seconds, per request."""
    seconds = str(max(1, math.ceil(timeout)))
    return _ALWAYS | {"MLFLOW_HTTP_REQUEST_TIMEOUT": seconds, "MLFLOW_ARTIFACT_UPLOAD_DOWNLOAD_TIMEOUT": seconds}


@contextmanager
def quiet_mlflow(timeout: float) -> Iterator[None]:
    """Apply the settings, hush loggers and warnings, then restore them."""
    before = {name: os.environ.get(name) for name in settings(timeout)}
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}
    os.environ.update(settings(timeout))
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # Not catch_warnings: that would also undo what other threads set meanwhile.
    warnings.filterwarnings("ignore", module=_WARNERS)
    filters = cast("list[object]", warnings.filters)
    added = filters[0]
    try:
        yield
    finally:
        if added in filters:
            filters.remove(added)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
