"""``endless clean [--all] [--days N] [--dry-run]``: free the disk of what runs keep for speed, and of no result."""

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from runner.cli.console import console
from runner.compose.section import typed_section
from runner.domain.errors import EngineError, UserError
from runner.pipeline.layout import Outputs
from runner.sandbox.cache import GB, Inventory, Kept, beyond, freed, own_size, unused, without_needed
from runner.sandbox.lease import cleaning
from runner.sandbox.registry import open_inventories
from runner.schema import Sandbox

DAY = 86400


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0, or 1 when something could not be removed."""
    screen = console()
    settings = typed_section(Sandbox, arguments.set)
    if arguments.days < 0:
        raise UserError(f"--days is {arguments.days:g}, but must be 0 or more")
    cache = Outputs(Path(arguments.outputs).absolute()).cache
    failures: list[str] = []
    with ExitStack() as stack:
        since = stack.enter_context(cleaning(cache))
        found = stack.enter_context(open_inventories(settings, cache, since))
        kept = {name: told for name, told in found.items() if isinstance(told, Inventory)}
        before = time.time() if arguments.all else time.time() - arguments.days * DAY
        gone = {name: _choose(told.things, before, settings.cache_gb) for name, told in kept.items()}
        if not arguments.dry_run:
            with screen.status("removing"):
                gone, failures = _remove(gone)
        _report(screen, kept, gone, before, dry_run=arguments.dry_run)
        for name, told in found.items():
            if isinstance(told, EngineError):
                screen.print(f"{name}: skipped. {told}", style="dim", markup=False)
    for failure in failures:
        screen.print(f"warning: {failure}", style="yellow", markup=False)
    return 1 if failures else 0


def _choose(things: Sequence[Kept], before: float, limit_gb: float | None) -> list[Kept]:
    """What goes, in this order."""
    gone = unused(things, since=before)
    if limit_gb is not None:
        chosen = {id(thing) for thing in gone}
        rest = [thing for thing in things if id(thing) not in chosen]
        gone += beyond(rest, limit_gb * GB, recent=time.time())
    return without_needed(gone, things)


def _remove(gone: Mapping[str, Sequence[Kept]]) -> tuple[dict[str, list[Kept]], list[str]]:
    """What is gone now, and what went wrong."""
    removed: dict[str, list[Kept]] = {}
    failures = []
    for name, things in gone.items():
        removed[name] = []
        for thing in things:
            try:
                removed[name] += [thing] if thing.remove() else []
            except EngineError as error:
                failures.append(str(error))
    return removed, failures


def _report(
    screen: Console,
    kept: Mapping[str, Inventory],
    gone: Mapping[str, Sequence[Kept]],
    before: float,
    *,
    dry_run: bool,
) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("what")
    table.add_column("would go" if dry_run else "removed", justify="right")
    table.add_column("size", justify="right")
    table.add_column("stays", justify="right")
    table.add_column("size", justify="right")
    table.add_column("because")
    size = 0
    for name, told in kept.items():
        leaving = {id(thing) for thing in gone[name]}
        stays = [thing for thing in told.things if id(thing) not in leaving]
        size += freed(gone[name], stays)
        for kind in sorted({thing.kind for thing in told.things}):
            leave, stay = ([t for t in things if t.kind == kind] for things in (gone[name], stays))
            reasons = "; ".join(sorted({_reason(thing, before) for thing in stay}))
            leave_size, stay_size = (_size(own_size(things, told.things)) for things in (leave, stay))
            what = kind if name == "common" else f"{name}: {kind}"
            table.add_row(what, str(len(leave)), leave_size, str(len(stay)), stay_size, reasons)
    if table.row_count:
        screen.print(table)
    verb = "would free" if dry_run else "freed"
    screen.print(f"{verb} {_size(size)}; results (store, runs, journal, MLflow) are not touched", markup=False)
    for told in kept.values():
        for note in told.notes:
            screen.print(note, style="dim", markup=False)


def _reason(thing: Kept, before: float) -> str:
    """Why something stays."""
    if thing.held:
        return thing.held
    return "used lately" if thing.used >= before else "other images need it"


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
