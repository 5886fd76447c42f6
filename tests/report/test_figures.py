"""Figures draw whatever they are given, and stay to themselves on a page of many."""

import re

import pytest

from runner.analysis.failures import FailureMode
from runner.report.figures.failures import Panel, beside_paper, modes
from runner.report.figures.scores import Dot, apart, dots, pass_at_k, scale
from runner.report.figures.tasks import attrition, difficulty
from runner.report.figures.training import curves, running_mean

STRANGE = r"$\frac{1}{0$ <script>&quot; 日本語 ‮ \ufeff" + "x" * 80 + "\n\x00"
COUNTS = dict.fromkeys(FailureMode, 0)

FIGURES = {
    "dots": lambda: dots("a", STRANGE, STRANGE, [Dot(label=STRANGE, value=0, low=0, high=1)], [(STRANGE, 0.5)]),
    "pass at k": lambda: pass_at_k({STRANGE: {1: 0.2, 4: 0.5}, "b": {1: 0.2}}, STRANGE),
    "modes": lambda: modes({STRANGE: COUNTS, "b": COUNTS | {FailureMode.LOOP: 3}}),
    "paper": lambda: beside_paper([Panel(title="loops", paper=0.39, values=[None, 0.2], percent=True)], [STRANGE, "b"]),
    "attrition": lambda: attrition([("drawn", 12, "all"), (STRANGE, 1, "lost"), ("kept", 11, "kept")], STRANGE),
    "few attempts": lambda: difficulty([(0, 4), (4, 4), (2, 4)]),
    "uneven attempts": lambda: difficulty([(0, 4), (16, 16), (9, 9)]),
    "training": lambda: curves("t", STRANGE, [(n, {"x": 1.0 * n}) for n in range(40)], [("x", STRANGE)]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_strange_texts_are_drawn_as_texts(name):
    made = FIGURES[name]()
    assert made.png.startswith(b"\x89PNG")
    assert made.svg.startswith("<svg viewBox=")
    assert made.svg.endswith("</svg>")
    assert not re.search(r"<script|http|<!--|<metadata", made.svg)
    used = re.findall(r'(?:href="#|url\(#)([^")]+)', made.svg)
    known = re.findall(r'\bid="([^"]+)"', made.svg)
    assert set(used) <= set(known)
    assert all(one.startswith(f"{made.name}-") for one in known)


def test_a_figure_is_the_same_each_time():
    assert FIGURES["dots"]() == FIGURES["dots"]()


def test_a_training_of_one_step_has_no_curve():
    assert curves("t", "t", [(1, {"x": 1.0})], [("x", "x")]) is None


def test_an_axis_is_as_long_as_its_values_need():
    assert [scale([value]) for value in (0.02, 0.12, 0.4, 0.6, 1.0)] == [10, 20, 50, 100, 100]


def test_labels_are_moved_apart_and_stay_below_the_top():
    assert apart([10, 11, 50], 6) == [10, 16, 50]
    assert apart([98, 100], 6) == [94, 100]


def test_a_running_mean_is_of_its_neighbours():
    assert running_mean([0, 3, 6], 3) == [1.5, 3, 4.5]
