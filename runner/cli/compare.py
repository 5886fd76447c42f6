"""``endless compare RUN RUN...``: what differs between runs, and whether it means anything."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from runner.cli.console import console
from runner.domain.errors import UserError
from runner.report.comparison import (
    RunComparison,
    differences_table,
    method,
    metrics_table,
    scores_table,
    settings_table,
)
from runner.report.document import Table
from runner.results.comparison import compare_runs, write_comparison
from runner.results.runs import Run, all_runs, find_run


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    found = compare_runs(resolve(arguments.runs, Path(arguments.outputs)))
    print_comparison(screen, found)
    if arguments.out:
        page = write_comparison(found, Path(arguments.out))
        screen.print(f"\nthe same as a page: {page}", soft_wrap=True, markup=False)
    return 0


def resolve(names: Sequence[str], outputs: Path) -> list[Run]:
    """The runs that these words mean. Raises UserError for fewer than two, and for the same one twice."""
    runs = [_resolve(name, outputs) for name in names]
    folders = [run.folder.path.resolve() for run in runs]
    if len(runs) < 2:
        raise UserError("a comparison takes two runs or more; `endless show runs` lists them")
    if twice := next((run.name for run in runs if folders.count(run.folder.path.resolve()) > 1), ""):
        raise UserError(f"run {twice} is named twice")
    return runs


def _resolve(name: str, outputs: Path) -> Run:
    """A run's folder, its name, or a part that only its name has."""
    folder = Path(name)
    if (folder / "run.json").is_file():
        home = folder.absolute().parent.parent
        return next(run for run in all_runs(home) if run.folder.path.resolve() == folder.resolve())
    runs = all_runs(outputs)
    exact = [run for run in runs if run.name == name]
    matching = exact or [run for run in runs if name in run.name]
    if len(matching) > 1:
        raise UserError(
            f"{name!r} means {len(matching)} runs: {', '.join(run.name for run in matching)}; say more of one"
        )
    return matching[0] if matching else find_run(outputs, name)


def print_comparison(screen: Console, found: RunComparison) -> None:
    """The tables of the page, for a terminal."""
    for run in found.runs:
        screen.print(f"[bold]{escape(run.label)}[/]  {escape(run.name)}  {run.status}", soft_wrap=True)
    _print(screen, "what differs in the recipe", settings_table(found))
    if found.scores:
        _print(screen, "scores, with 95 % intervals", scores_table(found))
        _print(screen, "differences to the first run, in percentage points", differences_table(found))
        screen.print(f"[dim]{escape(method(found))}[/]")
    if found.metrics:
        _print(screen, "other figures that differ (not tested)", metrics_table(found))
    if not found.scores and not found.metrics:
        screen.print("\nno figure differs")


def _print(screen: Console, title: str, table: Table) -> None:
    screen.print(f"\n[italic]{title}[/]")
    made = RichTable(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(table.columns):
        made.add_column(escape(name), justify="left" if place < table.texts else "right", overflow="fold")
    for row in table.rows:
        made.add_row(*map(escape, row))
    screen.print(made)
