"""How good each model is: pass@1 with its interval, and pass@k over k."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.report.document import Picture
from runner.report.figures.style import BLUE, GREY, SERIES, bare, drawn, figure, labels, picture, reference, titled


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A share with its interval, all from 0 to 1."""

    label: str
    value: float
    low: float
    high: float
    muted: bool = False
    """Beside the point: drawn in grey."""


@drawn
def dots(
    name: str,
    title: str,
    subtitle: str,
    rows: Sequence[Dot],
    lines: Sequence[tuple[str, float]] = (),
) -> Picture:
    """A row per dot, the first on top, and published figures as lines (text, share)."""
    made, axes = figure(0.95 + 0.27 * len(rows) + 0.15 * len(lines))
    places = range(len(rows))
    for place, row in zip(places, rows, strict=True):
        colour = GREY if row.muted else BLUE
        axes.plot([100 * row.low, 100 * row.high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
        axes.plot(100 * row.value, place, "o", color=colour, markersize=6.5, markeredgecolor="white")
        axes.annotate(
            f"{100 * row.value:.1f} %",
            (1, place),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    axes.set_yticks(places, labels([row.label for row in rows]))
    axes.set_ylim(len(rows) - 0.4, -0.6 - 0.55 * len(lines))
    top = scale([row.high for row in rows] + [value for _, value in lines])
    axes.set_xlim(-0.02 * top, 1.02 * top)
    axes.set_xticks([top * tick / 5 for tick in range(6)], [f"{top * tick / 5:g} %" for tick in range(6)])
    for number, (text, value) in enumerate(sorted(lines, key=lambda line: line[1])):
        reference(axes, 100 * value, text, row=number)
    bare(axes, grid="x")
    titled(axes, title, subtitle)
    return picture(name, title, made)


def scale(shares: Sequence[float]) -> int:
    """The end of an axis in percent: all of it, unless that would squeeze small values."""
    most = 100 * max(shares)
    return next(end for end in (10, 20, 50, 100) if most <= 0.9 * end or end == 100)


@drawn
def pass_at_k(curves: Mapping[str, Mapping[int, float]], subtitle: str) -> Picture:
    """A line per model over k, named at its end."""
    title = "pass@k: one of k attempts solves the task"
    made, axes = figure(3.1)
    most = max(k for curve in curves.values() for k in curve)
    ends = []
    for colour, (model, curve) in zip(SERIES * len(curves), curves.items(), strict=False):
        ks = sorted(curve)
        axes.plot(ks, [100 * curve[k] for k in ks], "o-", color=colour, markersize=4, linewidth=1.8)
        ends.append((100 * curve[ks[-1]], ks[-1], model, colour))
    for (_, _, model, colour), height in zip(sorted(ends), apart(sorted(end[0] for end in ends), 6.0), strict=True):
        axes.annotate(
            labels([model], 24)[0],
            (1, height),
            xytext=(6, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8.5,
            fontweight="bold",
        )
    axes.set_ylim(-3, 103)
    axes.set_yticks(range(0, 101, 20), [f"{tick} %" for tick in range(0, 101, 20)])
    axes.set_xlim(0.8, most + 0.2)
    axes.set_xticks(range(1, most + 1) if most <= 16 else [2**power for power in range(most.bit_length())])
    axes.set_xlabel("k, attempts")
    bare(axes, grid="y")
    axes.spines["bottom"].set_visible(True)
    titled(axes, title, subtitle)
    return picture("pass-at-k", title, made)


def apart(heights: Sequence[float], least: float) -> list[float]:
    """Sorted heights moved so that labels at them do not overlap, as little as needed."""
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + least) if placed else height)
    over = max(placed[-1] - 100, 0.0) if placed else 0.0
    return [height - over for height in placed]
