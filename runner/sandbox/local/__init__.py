"""Sandboxes without a container engine and without being root: Linux namespaces, and this machine's own programs.

``inside/`` is what runs in a sandbox's namespaces; the modules here are the runner's side of it.
"""

from runner.sandbox.local.backend import LocalBackend

__all__ = ["LocalBackend"]
