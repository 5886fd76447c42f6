"""The tasks: where draws were lost, and how hard what is left is for the solver."""

from collections.abc import Sequence

from runner.report.document import Picture
from runner.report.figures.style import BLUE, GREEN, GREY, ORANGE, bare, drawn, figure, labels, picture, titled

_BINS = 10


@drawn
def attrition(rows: Sequence[tuple[str, int, str]], subtitle: str) -> Picture:
    """A bar a row: (label, how many, kind); kind is ``kept``, ``lost`` or ``all``."""
    title = "Attrition: what became of the draws"
    made, axes = figure(0.85 + 0.26 * len(rows))
    whole = max(count for _, count, _ in rows)
    colours = {"kept": GREEN, "lost": ORANGE, "all": GREY}
    for place, (_, count, kind) in enumerate(rows):
        axes.barh(place, count, color=colours[kind], height=0.62)
        axes.text(count + whole * 0.008, place, f"{count:,}", va="center", fontsize=8.5)
    axes.set_yticks(range(len(rows)), labels([label for label, _, _ in rows], 60))
    axes.invert_yaxis()
    axes.set_xlim(0, whole * 1.06)
    axes.set_xticks([])
    bare(axes, grid="x")
    axes.spines["bottom"].set_visible(False)
    titled(axes, title, subtitle)
    return picture("attrition", title, made)


@drawn
def difficulty(passes: Sequence[tuple[int, int]]) -> Picture:
    """A histogram over tasks of (passes, graded attempts): by passes where all have as many attempts, else by rate."""
    title = "How hard the tasks are for the solver"
    made, axes = figure(2.5)
    attempts = {n for _, n in passes}
    few = len(attempts) == 1 and max(attempts) <= 32
    top = max(attempts) if few else _BINS
    places = [p if few else min(int(_BINS * p / n), _BINS - 1) for p, n in passes]
    counts = [places.count(place) for place in range(top + few)]
    never = sum(p == 0 for p, _ in passes)
    axes.bar(range(len(counts)), counts, color=[ORANGE if few and i == 0 else BLUE for i in range(len(counts))])
    for place, count in enumerate(counts):
        if count:
            axes.text(place, count, f"{count:,}", ha="center", va="bottom", fontsize=8.5)
    ticks = [str(i) for i in range(top + 1)] if few else [f"{10 * i} to {10 * i + 10} %" for i in range(_BINS)]
    axes.set_xticks(range(len(counts)), ticks, fontsize=8.5 if few else 7)
    axes.set_xlabel(f"passes in {top} attempts" if few else "share of its attempts that passed")
    axes.set_yticks([])
    axes.set_ylim(0, max(counts) * 1.15)
    bare(axes, grid="y")
    axes.spines["bottom"].set_visible(True)
    axes.spines["left"].set_visible(False)
    titled(axes, title, f"number of tasks; {never} of {len(passes)} never passed")
    return picture("difficulty", title, made)
