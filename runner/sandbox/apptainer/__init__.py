"""Sandboxes in Apptainer containers, for clusters without Docker: rootless, from a base image, without a daemon.

One container per run holds a nursery (``local/inside``), which makes every sandbox as the local backend does: its own
namespaces, and one overlay in memory, here over the base image. So a start costs a fork and not a container start,
nothing of an episode is ever on a disk, and all of it ends with the runner.
"""

from runner.sandbox.apptainer.backend import ApptainerBackend

__all__ = ["ApptainerBackend"]
