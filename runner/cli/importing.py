"""``endless tasks import PATH|ARCHIVE --to FOLDER``: tasks of others, in our stored form."""

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from runner.cli.console import console
from runner.sandbox.docker.dockerfile import buildx_missing
from runner.store.imports.importer import Imported, import_tasks


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 when every task was imported, 1 when some were refused."""
    results = []
    for result in import_tasks(Path(arguments.source), Path(arguments.to)):
        results.append(result)
        if arguments.json:
            print(json.dumps(result.row(), ensure_ascii=False), flush=True)
        else:
            _print(console(), result)
    screen = console(stderr=arguments.json)
    refused = sum(bool(result.refused) for result in results)
    screen.print(f"\nimported {len(results) - refused} of {len(results)} tasks to {arguments.to}", markup=False)
    for line in _builders(results):
        screen.print(line, style="yellow", markup=False)
    return 1 if refused else 0


def _print(screen: Console, result: Imported) -> None:
    if result.refused:
        screen.print(f"[yellow]refused [/]  {escape(result.id)}  [dim]{result.format}[/]  {escape(result.refused)}")
        return
    made_of = f"{result.format}, {result.environment}, {result.verifier}"
    screen.print(f"[green]imported[/]  {escape(result.id)}  [dim]{escape(made_of)}[/]")
    for note in result.notes:
        screen.print(f"          {note}", style="dim", markup=False)


def _builders(results: list[Imported]) -> list[str]:
    """What will be missing when the Dockerfiles are built."""
    dockerfiles = [result for result in results if result.environment == "Dockerfile"]
    missing = buildx_missing() if dockerfiles else ""
    if not missing:
        return []
    need = sum(result.buildkit for result in dockerfiles)
    return [
        f"{len(dockerfiles)} of them have a Dockerfile, which is built with BuildKit through docker buildx: {missing}.",
        f"(Podman needs no buildx; for the {need} with heredocs or mounts it must be 4.8 or later.)",
    ]
