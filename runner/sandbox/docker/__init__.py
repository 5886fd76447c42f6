"""Sandboxes in containers of Docker, or of Podman through the same socket and SDK."""

from runner.sandbox.docker.backend import DockerBackend

__all__ = ["DockerBackend"]
