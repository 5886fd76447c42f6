"""The end of a sweep: its variants side by side, once, beside their runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from runner import __version__
from runner.domain.plain import fingerprint
from runner.pipeline.layout import Outputs, RunFolder

PAGE = "compare.html"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A finished run of a sweep."""

    folder: RunFolder
    outputs: Path
    text: str
    """What tells it from its siblings: ``filter.n=2``."""


def finish_sweep(screen: Console, variants: Sequence[Variant]) -> None:
    """Compare the variants, unless that was done, and say where. A launcher of other processes' own hands none over.

    Raises StorageError.
    """
    if len({variant.folder.path for variant in variants}) < 2:
        return
    folder = sweep_folder(variants)
    page = folder / PAGE
    if not page.exists():
        _compare(variants, folder)
    screen.print(f"\nthe {len(variants)} variants side by side: {page}", soft_wrap=True, markup=False)


def sweep_folder(variants: Sequence[Variant]) -> Path:
    """Beside the runs. The same runs, compared by the same version, have the same one."""
    first = variants[0].folder.path
    key = fingerprint(__version__, [variant.folder.path.name for variant in variants], digits=8)
    return first.parent / f"sweep-{first.name.rpartition('-')[0]}-{key}"


def _compare(variants: Sequence[Variant], folder: Path) -> None:
    from runner.results.comparison import compare_runs, write_comparison
    from runner.results.runs import Run

    unique = {variant.folder.path: variant for variant in variants}.values()
    runs = [Run(variant.folder, Outputs(variant.outputs.absolute()), variant.folder.read_state()) for variant in unique]
    write_comparison(compare_runs(runs, [variant.text for variant in unique]), folder)
