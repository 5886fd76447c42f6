"""A document as one Markdown file, whose figures are files beside it. Texts of strangers stay texts."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from runner.report.document import Block, Bullets, Document, Facts, Paragraph, Picture, Table, Transcript
from runner.report.text import clean

FIGURES = "figures"
"""The folder of the figures, beside the file."""
_MARKUP = re.compile(r"([\\`*_{}\[\]<>|~&$])")
_START = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+=#]+(?:\s|$)))")
"""What would begin a heading or a list."""
_PREFIX = {"command": "$ ", "task": "", "output": "", "note": "# "}


def render_markdown(document: Document) -> str:
    """The whole file."""
    parts = [f"# {_text(document.title)}", _text(document.lead)]
    for section in document.sections:
        parts += [f"## {_text(section.title)}", *(_block(block) for block in section.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    return _WRITERS[type(block)](block)


def _text(text: str) -> str:
    """One line of plain text."""
    return _START.sub(r"\1\\", _MARKUP.sub(r"\\\1", " ".join(clean(text).split())))


def _paragraph(block: Paragraph) -> str:
    return _text(block.text)


def _bullets(block: Bullets) -> str:
    return "\n".join(f"- {_text(item)}" for item in block.items)


def _facts(block: Facts) -> str:
    return _table(Table(columns=("", ""), rows=block.rows, texts=2))


def _table(block: Table) -> str:
    rule = ["---" if place < block.texts else "---:" for place in range(len(block.columns))]
    lines = [_row([_text(name) for name in block.columns]), _row(rule)]
    lines += [_row([_text(cell) for cell in row]) for row in block.rows]
    caption = [f"**{_text(block.caption)}**", ""] if block.caption else []
    return "\n".join([*caption, *lines])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _picture(block: Picture) -> str:
    return f"![{_text(block.title)}]({FIGURES}/{block.name}.png)"


def _transcript(block: Transcript) -> str:
    body = "\n".join(f"{_PREFIX[line.kind]}{clean(line.text)}" for line in block.lines)
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"**{_text(block.title)}**\n\n{fence}text\n{body}\n{fence}"


_WRITERS: Mapping[type[Any], Callable[[Any], str]] = {
    Paragraph: _paragraph,
    Bullets: _bullets,
    Facts: _facts,
    Table: _table,
    Picture: _picture,
    Transcript: _transcript,
}
