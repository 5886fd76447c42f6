"""One look for every figure: few lines, direct labels, colours that colour-blind readers can tell apart (Okabe, Ito).

Matplotlib is imported in the functions: it takes half a second, and most commands draw nothing.
"""

import io
import logging
import re
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from runner.report.document import Picture
from runner.report.text import clean

P = ParamSpec("P")
R = TypeVar("R")

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PINK, GREY, BLACK = "#56B4E9", "#CC79A7", "#8A8A8A", "#222222"
SERIES = (BLUE, RED, GREEN, ORANGE, PINK, SKY, GREY, BLACK)
PALE = "#DDDDDD"
WIDTH = 7.2
"""Inches: a text column."""
_DPI = 150

_RC: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.parse_math": False,
    "text.color": BLACK,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": "#555555",
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#555555",
    "ytick.color": BLACK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}


def drawn(draw: Callable[P, R]) -> Callable[P, R]:
    """A function that draws in this style: texts take some of it when they are made, not when they are rendered."""

    @wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        import matplotlib as mpl

        logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of fonts that it looks for
        with mpl.rc_context(_RC), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a label in a script that ours lacks
            return draw(*args, **kwargs)

    return styled


def figure(height: float, columns: int = 1, rows: int = 1, *, width: float = WIDTH, **options: Any) -> tuple[Any, Any]:
    """An empty figure and its axes (one, or an array); sizes in inches."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns, **options)


def titled(axes: Any, title: str, subtitle: str = "") -> None:
    """The title above the axes, from the figure's left edge: what is shown, and below it in grey in what unit."""
    axes.set_title(" ", pad=21 if subtitle else 9)  # room: what is written below is not part of the layout
    lines = [(title, 10.5, BLACK, "bold", 20 if subtitle else 8)]
    lines += [(subtitle, 8.5, "#555555", "normal", 7)] if subtitle else []
    for text, size, colour, weight, height in lines:
        axes.annotate(
            clean(text),
            (0, 1),
            xytext=(3, height),
            xycoords=("figure fraction", "axes fraction"),
            textcoords="offset points",
            fontsize=size,
            color=colour,
            fontweight=weight,
            annotation_clip=False,
        ).set_in_layout(False)


def heading(made: Any, title: str) -> None:
    """The title of a figure of several panels."""
    made.suptitle(clean(title), x=3 / 72 / made.get_size_inches()[0], ha="left", fontsize=10.5, fontweight="bold")


def bare(axes: Any, *, grid: str) -> None:
    """Only the grid of the axis along which values are read (``x`` or ``y``), no ticks on the other one."""
    axes.grid(axis=grid)
    axes.tick_params(axis="both", length=0)
    axes.spines["left" if grid == "x" else "bottom"].set_visible(False)


def reference(axes: Any, value: float, text: str, *, upright: bool = True, row: int = 0) -> None:
    """A published figure: a dashed line, named at its end."""
    line = axes.axvline if upright else axes.axhline
    line(value, color=BLACK, linewidth=1.1, linestyle=(0, (4, 3)), zorder=1)
    place, offset = ((value, 1), (3, -9 - 11 * row)) if upright else ((1, value), (-3, 3))
    axes.annotate(
        clean(text),
        place,
        xytext=offset,
        xycoords=("data", "axes fraction") if upright else ("axes fraction", "data"),
        textcoords="offset points",
        fontsize=7.5,
        color="#444444",
        ha="left" if upright else "right",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    ).set_in_layout(False)


def labels(texts: Sequence[str], most: int = 44) -> list[str]:
    """Texts of strangers as tick labels."""
    cleaned = [" ".join(clean(text).split()) for text in texts]
    return [text if len(text) <= most else f"{text[: most - 1]}…" for text in cleaned]


def picture(name: str, title: str, made: Any) -> Picture:
    """Render a figure both ways."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    vector, pixels = io.StringIO(), io.BytesIO()
    canvases: tuple[Any, ...] = (FigureCanvasSVG, FigureCanvasAgg)
    with mpl.rc_context({"svg.hashsalt": name}):
        canvases[0](made).print_svg(vector, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
        made.set_dpi(_DPI)
        canvases[1](made).print_png(pixels, metadata={"Software": None})
    return Picture(name=name, title=clean(title), svg=_inline(vector.getvalue(), name), png=pixels.getvalue())


def _inline(svg: str, name: str) -> str:
    """The bare element, as HTML wants it: no prolog, namespaces or metadata, and ids of its own on a page of many."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg)
    svg = re.sub(r'\b(id="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()
