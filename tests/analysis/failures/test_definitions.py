"""The definitions that users read state the thresholds that the code uses."""

import re
from dataclasses import asdict

from runner.analysis import failures
from runner.analysis.failures import FailureMode
from runner.analysis.settings import AnalysisSettings

TEXT = " ".join((failures.__doc__ or "").split())


def test_every_mode_is_defined_in_the_order_of_precedence():
    numbered = re.findall(r"\d\. ``(\w+)``:", TEXT)
    assert numbered == [mode.value for mode in FailureMode]


def test_every_threshold_is_named_with_its_default():
    words = {0.5: "half"}
    for name, value in asdict(AnalysisSettings()).items():
        if name != "top_commands":
            assert f"``{name}`` ({words.get(value, value)})" in TEXT
