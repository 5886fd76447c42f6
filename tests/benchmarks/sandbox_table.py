"""The sandbox benchmark's records as Markdown: figures of every tool, and how many times slower than ours it is."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

Record = Mapping[str, Any]
"""What one driver answered to one request: ``tool``, ``do``, ``at`` (sandboxes at once), ``round``, and its figures."""

NOTHING = "-"
KINDS = {
    "start": "start, ms",
    "command": "one command, ms",
    "per_second": "commands per second",
    "paced": "one command between pauses, ms",
    "grade": "grading, ms",
}
"""Figure -> the heading of its column."""
FASTER_IS_MORE = {"per_second"}
MARKS = "<!-- benchmark: begin -->", "<!-- benchmark: end -->"
"""Between these lines of a page the table is published."""


def published(page: str, table: str) -> str:
    """The page with the table in its place. Raises ValueError when the page has none."""
    before, begin, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not begin or not end:
        raise ValueError(f"the page has no lines {MARKS[0]} and {MARKS[1]}")
    return f"{before}{MARKS[0]}\n{table.strip()}\n{MARKS[1]}{after}"


def render(result: Mapping[str, Any]) -> str:
    """Everything that is published of one run."""
    records, ours = result["records"], result["reference"]
    levels = sorted({record["at"] for record in records if record["at"] is not None})
    tools = list(dict.fromkeys(record["tool"] for record in records))
    figures = {(tool, kind, at): _figure(records, tool, kind, at) for tool in tools for kind in KINDS for at in levels}
    shown = [kind for kind in KINDS if any(figures[tool, kind, at] for tool in tools for at in levels)]
    at = " / ".join(map(str, levels))
    parts = [
        f"{result['machine']}. Medians; each cell: with {at} sandboxes at once.",
        _table(tools, shown, lambda tool, kind: _cell(figures, tool, kind, levels)),
        f"How many times slower than *{ours}*:",
        _table(
            [tool for tool in tools if tool != ours],
            shown,
            lambda tool, kind: _ratios(figures, tool, ours, kind, levels),
        ),
        "What an episode waits for in a steady run:",
        *_steady(records, levels),
        "The aims:",
        _aims(figures, tools, ours, levels),
        *_notes(records),
    ]
    return "\n\n".join(parts) + "\n"


def _figure(records: Iterable[Record], tool: str, kind: str, at: int) -> float | None:
    """The median of all that was measured, in seconds (or per second)."""
    values: list[float] = []
    for record in records:
        if (record["tool"], record["at"], record["do"]) == (tool, at, "burst") and kind in record:
            values += record[kind] if isinstance(record[kind], list) else [record[kind]]
    return median(values) if values else None


def _cell(figures: Mapping[Any, float | None], tool: str, kind: str, levels: Sequence[int]) -> str:
    scale = 1 if kind in FASTER_IS_MORE else 1000
    found = [figures[tool, kind, at] for at in levels]
    return _join(NOTHING if value is None else number(value * scale) for value in found)


def _ratios(figures: Mapping[Any, float | None], tool: str, ours: str, kind: str, levels: Sequence[int]) -> str:
    cells = []
    for at in levels:
        theirs, reference = figures[tool, kind, at], figures[ours, kind, at]
        if not theirs or not reference:
            cells.append(NOTHING)
        else:
            cells.append(number(reference / theirs if kind in FASTER_IS_MORE else theirs / reference))
    return _join(cells)


def _aims(figures: Mapping[Any, float | None], tools: Sequence[str], ours: str, levels: Sequence[int]) -> str:
    """How far *ours* is from what it is to be."""
    others = [tool for tool in tools if not tool.startswith("ours")]

    def best(kind: str, at: int) -> str:
        found = [value for tool in others if (value := figures[tool, kind, at])]
        reference = figures[ours, kind, at]
        return number(min(found) / reference) if found and reference else NOTHING

    rows = {
        "one command: the fastest other / ours, at least 100": [best("command", at) for at in levels],
        "the same, between pauses": [best("paced", at) for at in levels],
        "start: the fastest other / ours, at least 1": [best("start", at) for at in levels],
        "grading in seconds, less than 1": [
            number(value) if (value := figures[ours, "grade", at]) else NOTHING for at in levels
        ],
    }
    lines = [f"| {ours} | at {' / '.join(map(str, levels))} |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {_join(cells)} |" for name, cells in rows.items()])


def _join(cells: Iterable[str]) -> str:
    """One dash is enough where nothing was measured at all."""
    found = list(cells)
    return NOTHING if set(found) == {NOTHING} else " / ".join(found)


def number(value: float) -> str:
    """Two significant figures below 10, else a whole number."""
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def _table(tools: Sequence[str], kinds: Sequence[str], cell: Callable[[str, str], str]) -> str:
    lines = ["| | " + " | ".join(KINDS[kind] for kind in kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    lines += [f"| {tool} | " + " | ".join(cell(tool, kind) for kind in kinds) + " |" for tool in tools]
    return "\n".join(lines)


def _steady(records: Sequence[Record], levels: Sequence[int]) -> list[str]:
    waits: dict[str, dict[int, list[float]]] = {}
    for record in records:
        if record["do"] == "steady" and "waits" in record:
            waits.setdefault(record["tool"], {}).setdefault(record["at"], []).extend(record["waits"])
    if not waits:
        return ["Not measured."]
    lines = ["| | median wait, ms | longest wait, ms |", "|---|---|---|"]
    for tool, found in waits.items():
        cells = (
            _join(number(1000 * max(0.0, best(found[at]))) if at in found else NOTHING for at in levels)
            for best in (median, max)
        )
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    return ["\n".join(lines)]


def _notes(records: Sequence[Record]) -> list[str]:
    """Why cells are empty, and what was left behind: said once each."""
    notes: dict[str, None] = {}
    for record in records:
        where = "" if record["at"] is None else f" at {record['at']}"
        if "error" in record:
            notes[f"* {record['tool']}{where} ({record['do']}): {record['error']}"] = None
        if record.get("left"):
            notes[f"* {record['tool']}{where} left {record['left']} containers behind, which were removed."] = None
    return ["\n".join(notes)] if notes else []
