"""How training went: each figure over its steps, in small panels."""

from collections.abc import Sequence

from runner.report.data import Points
from runner.report.document import Picture
from runner.report.figures.style import BLUE, PALE, bare, drawn, figure, heading, picture

PPO = (
    ("ppo/reward", "mean reward"),
    ("ppo/dev/pass_at_1", "pass@1, dev tasks"),
    ("ppo/engine_kl", "engine KL (nats)"),
    ("ppo/response_length", "response length (tokens)"),
    ("ppo/entropy", "entropy (nats)"),
    ("ppo/turns", "turns an episode"),
)
SFT = (("sft/loss", "loss (nats a token)"),)
_COLUMNS = 3
_SMOOTH = 20
"""From so many steps on, a running mean is drawn over the points."""


def series(points: Points, name: str) -> tuple[list[int], list[float]]:
    """Steps and values of one figure."""
    found = [(step, figures[name]) for step, figures in points if name in figures]
    return [step for step, _ in found], [value for _, value in found]


@drawn
def curves(name: str, title: str, points: Points, wanted: Sequence[tuple[str, str]]) -> Picture | None:
    """A panel for each figure that the training has; None where it has none of two steps or more."""
    there = [(key, text) for key, text in wanted if len(series(points, key)[0]) > 1]
    if not there:
        return None
    columns = min(_COLUMNS, len(there))
    rows = -(-len(there) // columns)
    made, grid = figure(0.5 + 1.75 * rows, columns=columns, rows=rows, squeeze=False)
    flat = [axes for row in grid for axes in row]
    for axes, (key, text) in zip(flat, there, strict=False):
        steps, values = series(points, key)
        _panel(axes, steps, values)
        axes.set_title(text, loc="left", fontsize=8.5)
    for axes in flat[len(there) :]:
        axes.set_visible(False)
    for axes in flat[max(0, len(there) - columns) : len(there)]:
        axes.set_xlabel("step")
    heading(made, title)
    return picture(name, title, made)


def _panel(axes: object, steps: Sequence[int], values: Sequence[float]) -> None:
    from matplotlib.ticker import MaxNLocator

    long = len(steps) >= _SMOOTH
    plain = {"color": PALE, "linewidth": 1.2} if long else {"color": BLUE, "linewidth": 1.8}
    axes.plot(steps, values, "-" if len(steps) > 12 else "o-", markersize=3.5, **plain)  # type: ignore[attr-defined]
    if long:
        axes.plot(steps, running_mean(values, max(3, len(steps) // 12)), color=BLUE, linewidth=1.8)  # type: ignore[attr-defined]
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))  # type: ignore[attr-defined]
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))  # type: ignore[attr-defined]
    bare(axes, grid="y")
    axes.spines["bottom"].set_visible(True)  # type: ignore[attr-defined]


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of up to ``window`` values around each."""
    half = window // 2
    spans = [values[max(0, place - half) : place + half + 1] for place in range(len(values))]
    return [sum(span) / len(span) for span in spans]
