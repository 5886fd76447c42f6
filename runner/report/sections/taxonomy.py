"""Which labels were drawn, which stayed, how hard they are, and which cells teach nothing."""

from collections.abc import Iterator, Sequence

from runner.analysis.taxonomy import Cell, DimensionReport, Marginal, TaxonomyReport
from runner.report.data import ReportData
from runner.report.document import Block, Paragraph, Section, Table
from runner.report.figures.scores import Dot, dots
from runner.report.text import NOTHING, one_line, percent, rate

_MOST_CELLS = 12


def section(data: ReportData) -> Section | None:
    """None for tasks without labels."""
    found = data.taxonomy
    if found is None or not found.dimensions:
        return None
    return Section(title="Taxonomy", blocks=list(_blocks(found, tried=bool(data.solver_tasks))))


def _blocks(found: TaxonomyReport, *, tried: bool) -> Iterator[Block]:
    for dimension in found.dimensions:
        rows = _by_rate([one for one in dimension.marginals if one.tasks])
        if tried and rows:
            title = f"The solver's pass rate by {dimension.name}"
            subtitle = "share of attempts that pass, mean over tasks, with interval (bootstrap over tasks)"
            yield dots(f"label-{_slug(dimension.name)}", title, subtitle, [_dot(one) for one in rows])
        yield _marginals(dimension, tried)
    yield _balance(found)
    yield Paragraph(
        small=True,
        text="Evenness: entropy of the values over that of equal shares; 1 is even. Likeness: 1 less the "
        "Jensen-Shannon divergence (bits) from the shares that the recipe's weights ask for; 1 is as asked.",
    )
    yield from _cells(found)


def _by_rate(rows: Sequence[Marginal]) -> list[Marginal]:
    return sorted(rows, key=lambda one: (-(one.pass_rate or 0.0), one.value))


def _slug(name: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower())


def _dot(one: Marginal) -> Dot:
    label = f"{one_line(one.value, 36)}  ({one.tasks})"
    interval = one.pass_interval
    return Dot(label=label, value=one.pass_rate or 0.0, low=interval.low, high=interval.high)


def _marginals(dimension: DimensionReport, tried: bool) -> Table:
    columns = [dimension.name, "weight", "draws", "kept", "keep rate"] + (["pass rate"] if tried else [])
    rows = [_marginal(one, tried) for one in _by_rate([one for one in dimension.marginals if one.draws])]
    unseen = sum(not one.draws for one in dimension.marginals)
    more = f" ({unseen} of its {len(dimension.marginals)} values were not drawn)" if unseen else ""
    return Table(caption=f"By {dimension.name}{more}", columns=columns, rows=rows)


def _marginal(one: Marginal, tried: bool) -> list[str]:
    keep, passed = one.keep_interval, one.pass_interval
    cells = [one_line(one.value), percent(one.expected), f"{one.draws:,}", f"{one.kept:,}"]
    cells.append(NOTHING if one.keep_rate is None else rate(one.keep_rate, keep.low, keep.high))
    if tried:
        cells.append(NOTHING if one.pass_rate is None else rate(one.pass_rate, passed.low, passed.high))
    return cells


def _balance(found: TaxonomyReport) -> Table:
    rows = [
        [one.name, *(_score(value) for kind in (one.drawn, one.kept) for value in (kind.evenness, kind.likeness))]
        for one in found.dimensions
    ]
    columns = ("dimension", "evenness, drawn", "likeness, drawn", "evenness, kept", "likeness, kept")
    return Table(caption="Balance", columns=columns, rows=rows)


def _score(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _cells(found: TaxonomyReport) -> Iterator[Block]:
    kinds = (("too easy", found.too_easy), ("too hard", found.too_hard), ("never kept", found.never_kept))
    rows = [_cell(name, cell) for name, cells in kinds for cell in cells[:_MOST_CELLS]]
    if rows:
        columns = ("cell", "one", "other", "draws", "kept", "passes")
        yield Table(caption="Cells that teach nothing", columns=columns, rows=rows, texts=3)
    more = [f"{len(cells) - _MOST_CELLS} more {name}" for name, cells in kinds if len(cells) > _MOST_CELLS]
    yield Paragraph(
        small=True,
        text=f"A cell is a pair of values with at least {found.least_draws} draws. Too easy: every attempt passed. Too "
        f"hard: tried, and none passed. {'Left out: ' + ', '.join(more) + '.' if more else ''}",
    )


def _cell(name: str, cell: Cell) -> list[str]:
    one, other = (one_line(value) for value in cell.values)
    return [name, one, other, str(cell.draws), str(cell.kept), f"{cell.passes} of {cell.episodes}"]
