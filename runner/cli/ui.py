"""``endless ui [RECIPE]``: MLflow's UI on the store that runs are tracked to."""

import argparse
from pathlib import Path

from runner.cli.console import console


def main(arguments: argparse.Namespace) -> int:
    from runner.tracking.ui import serve

    screen = console()

    def ready(address: str) -> None:
        screen.print(f"MLflow UI at {address}  (Ctrl-C stops it)", markup=False)

    serve(_store(arguments), arguments.host, arguments.port, ready=ready)
    return 0


def _store(arguments: argparse.Namespace) -> str | Path:
    if not arguments.recipe:
        return Path(arguments.outputs)
    from runner.compose import compose

    config = compose(arguments.recipe)
    return config.tracking.uri or Path(config.outputs)
