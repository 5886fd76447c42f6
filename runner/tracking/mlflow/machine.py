"""What the machine does while it trains: processors, memory, disk, network and GPUs, as MLflow's own ``system/...``.

GPUs are seen where ``nvidia-ml-py`` is installed (vLLM brings it); of several machines it is the one that this runs on.
"""

from typing import Any

SECONDS = 10
"""Between two samples."""


class Machine:
    """Samples for one child run at a time. MLflow's thread ends by itself when the run's status does."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._run_id = ""
        self._monitor: Any = None

    def watch(self, run_id: str) -> None:
        """Sample for this run from now on, after what it has already."""
        if run_id == self._run_id:
            return
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

        self.rest()
        self._run_id = run_id
        monitor: Any = SystemMetricsMonitor
        self._monitor = monitor(run_id, sampling_interval=SECONDS, resume_logging=True, tracking_uri=self._uri)
        self._monitor.start()

    def rest(self) -> None:
        """Stop sampling and write what was sampled; waits for a request in flight. Idempotent."""
        monitor, self._monitor, self._run_id = self._monitor, None, ""
        if monitor is not None:
            monitor.finish()
