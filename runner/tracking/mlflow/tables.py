"""Tables and datasets in the form MLflow's UI shows them.

``MlflowClient.log_table`` appends to a table that is already there and reads it back to do so, which doubles rows when
a broken publication is repeated. The format it writes is simple, so it is written here whole: pandas' "split" JSON,
and a tag that tells the UI which artifacts are tables.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from runner.tracking.base import DatasetRef, Row
from runner.tracking.mlflow.params import safe_name

TABLES_TAG = "mlflow.loggedArtifacts"
_DIGEST_LIMIT = 12
"""Characters of a fingerprint that are shown; MLflow allows 36 and shows them all, beside the name."""


def table_json(rows: Sequence[Row]) -> str:
    """The rows as a split table; a column missing in a row is null."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    data = [[row.get(name) for name in columns] for row in rows]
    return json.dumps({"columns": columns, "data": data}, ensure_ascii=False, default=str)


def tables_tag(paths: Sequence[str]) -> str:
    """The value of ``TABLES_TAG`` for these artifact paths."""
    return json.dumps([{"path": path, "type": "table"} for path in paths])


def dataset_input(ref: DatasetRef) -> Any:
    """MLflow's dataset input for a folder or file on this machine."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = Dataset(
        name=ref.name,
        digest=ref.digest[:_DIGEST_LIMIT],
        source_type="local",
        source=json.dumps({"uri": str(ref.source)}),
        profile=json.dumps({"num_rows": ref.rows}),
    )
    return DatasetInput(dataset=dataset, tags=[InputTag(key="mlflow.data.context", value=ref.context)])


def metric_list(metrics: Mapping[str, float], step: int, timestamp: int) -> list[Any]:
    """Metrics of one moment; ``timestamp`` in milliseconds."""
    from mlflow.entities import Metric

    return [Metric(key=safe_name(k), value=float(v), timestamp=timestamp, step=step) for k, v in metrics.items()]
