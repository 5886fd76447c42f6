"""Why episodes fail: one bar a model, one colour a mode; and our shares beside the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.analysis.failures import FailureMode
from runner.report.document import Picture
from runner.report.figures.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PINK,
    RED,
    SKY,
    bare,
    drawn,
    figure,
    heading,
    labels,
    picture,
    reference,
    titled,
)
from runner.report.text import words

COLOURS = {
    FailureMode.WRONG_ANSWER: BLUE,
    FailureMode.LOOP: RED,
    FailureMode.TURN_LIMIT: ORANGE,
    FailureMode.PROTOCOL_ERROR: PINK,
    FailureMode.CONTEXT_FULL: GREEN,
    FailureMode.TIME_LIMIT: SKY,
}
"""In the order of the bar, the most usual first."""
_LIGHT = (ORANGE, SKY, PINK)
_SMALLEST = 0.06
"""A share narrower than this has no room for its number."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One figure of the paper's, and ours for each model, from 0 to 1."""

    title: str
    paper: float | None
    values: Sequence[float | None]
    percent: bool
    """A share, not a ratio."""


@drawn
def modes(rows: Mapping[str, Mapping[FailureMode, int]]) -> Picture:
    """A bar a model; its parts are shares of its failed graded episodes."""
    title = "Failure modes"
    made, axes = figure(1.35 + 0.36 * len(rows))
    for place, counts in enumerate(rows.values()):
        total, left = sum(counts[mode] for mode in COLOURS), 0.0
        if not total:
            axes.barh(place, 100, color="white", edgecolor=PALE, height=0.66)
        for mode, colour in COLOURS.items():
            share = counts[mode] / total if total else 0.0
            axes.barh(place, 100 * share, left=100 * left, color=colour, height=0.66, edgecolor="white", linewidth=0.8)
            if share >= _SMALLEST:
                dark = "black" if colour in _LIGHT else "white"
                middle = 100 * (left + share / 2)
                axes.text(middle, place, f"{100 * share:.0f} %", ha="center", va="center", color=dark, fontsize=8)
            left += share
        axes.annotate(
            f"{total:,} failed",
            (1, place),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color="#555555",
            fontsize=8.5,
        )
    _legend(made, [mode for mode in COLOURS if any(counts[mode] for counts in rows.values())])
    axes.set_yticks(range(len(rows)), labels(list(rows)))
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
    bare(axes, grid="x")
    axes.grid(visible=False)
    titled(axes, title, "share of the failed graded episodes of each model; definitions are ours")
    return picture("failure-modes", title, made)


def _legend(made: Any, found: Sequence[FailureMode]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=COLOURS[mode], label=words(mode)) for mode in found]
    place = {"loc": "outside lower left", "ncols": len(COLOURS), "borderpad": 0.1}
    made.legend(handles=handles, handlelength=1, handleheight=1, columnspacing=1.3, handletextpad=0.5, **place)


@drawn
def beside_paper(panels: Sequence[Panel], models: Sequence[str]) -> Picture:
    """A small panel a figure; each has a value for every model."""
    title = "Beside the paper's failure analysis: its definitions are unknown to us"
    made, grid = figure(1.5 + 0.26 * len(models), columns=len(panels), sharey=True, squeeze=False)
    for axes, panel in zip(grid[0], panels, strict=True):
        for place, value in enumerate(panel.values):
            if value is None:
                axes.text(0.02, place, "none", va="center", color=GREY, fontsize=8)
                continue
            axes.plot([0, value], [place, place], color=PALE, linewidth=3, solid_capstyle="butt", zorder=1)
            axes.plot(value, place, "o", color=BLUE, markersize=6.5, markeredgecolor="white", clip_on=False)
        if panel.paper is not None:
            text = f"{100 * panel.paper:.0f} %" if panel.percent else f"{panel.paper:.2f}"
            reference(axes, panel.paper, f"paper {text}")
        axes.set_title(panel.title, loc="left", fontsize=8.5)
        axes.set_xlim(-0.03, 1.03)
        axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"] if panel.percent else ["0", "0.5", "1"])
        axes.set_ylim(len(models) - 0.5, -1.1)
        axes.set_yticks(range(len(models)), labels(models, 22))
        bare(axes, grid="x")
    heading(made, title)
    return picture("failures-and-paper", title, made)
