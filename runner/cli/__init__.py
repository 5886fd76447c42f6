"""The command line: one module a command, imported when it is called; the only place that prints."""

from runner.cli.main import main

__all__ = ["main"]
