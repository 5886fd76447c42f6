"""How numbers and strangers' texts read in a report."""

import re
from decimal import Decimal

_NEVER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, half characters, and marks that turn the direction of writing: a page shows none of them."""


NOTHING = "\N{EN DASH}"
"""In place of a number that there is not."""


def clean(text: str) -> str:
    """A text of a model or a task as it can stand on a page: what cannot be shown is replaced."""
    return _NEVER.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, most: int = 120) -> str:
    """Clean, on one line, and cut to ``most`` characters."""
    return shortened(" ".join(clean(text).split()), most)


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def percent(share: float | None) -> str:
    """``53.3 %`` for 0.533; a dash for None."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def rate(share: float, low: float, high: float) -> str:
    """``53.3 % [47.1, 59.4]``."""
    return f"{percent(share)} [{100 * low:.1f}, {100 * high:.1f}]"


def change(delta: float, low: float, high: float) -> str:
    """A difference of two rates, in percentage points: ``+12.4 [3.1, 21.0]``."""
    return f"{100 * delta:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def p_value(p: float) -> str:
    """``0.023``; ``< 0.001`` below that."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float | None) -> str:
    """Three significant digits, whole numbers whole; a dash for None."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.3g}"


def dollars(value: float | None) -> str:
    """``$1.25``, below a dollar to the hundredth of a cent; ``unknown`` for None."""
    if value is None:
        return "unknown"
    step = Decimal("0.01") if value >= 1 or value == 0 else Decimal("0.0001")
    return f"${Decimal(str(value)).quantize(step):,}"


def duration(seconds: float) -> str:
    """``41 s``, ``12 min``, ``3:05 h``."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole // 3600}:{whole // 60 % 60:02} h"


def words(name: str) -> str:
    """``context_full`` -> ``context full``."""
    return name.replace("_", " ")
