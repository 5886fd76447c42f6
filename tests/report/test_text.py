"""How numbers read."""

from runner.report.text import NOTHING, change, clean, dollars, duration, number, one_line, p_value, percent, rate


def test_rates():
    assert rate(0.533, 0.471, 0.594) == "53.3 % [47.1, 59.4]"
    assert percent(0) == "0.0 %"
    assert percent(None) == NOTHING
    assert change(-0.124, -0.21, 0.031) == "-12.4 [-21.0, +3.1]"


def test_p_values():
    assert [p_value(p) for p in (0.0004, 0.001, 0.0234, 1.0)] == ["< 0.001", "0.001", "0.023", "1.000"]


def test_numbers_money_and_time():
    assert [number(n) for n in (3.0, 0.01234, 12345.6, None)] == ["3", "0.0123", "12,346", NOTHING]
    assert [dollars(d) for d in (0.0, 0.00371, 1234.5, None)] == ["$0.00", "$0.0037", "$1,234.50", "unknown"]
    assert [duration(s) for s in (41.4, 150, 11_100)] == ["41 s", "2 min", "3:05 h"]


def test_what_cannot_be_shown_is_replaced():
    assert clean("a\x1b[31m\x00\ud800‮b\tc\n") == "a�[31m���b\tc\n"
    assert one_line(" a\n  b ", 120) == "a b"
    assert one_line("x" * 200, 10) == "x" * 9 + "…"
