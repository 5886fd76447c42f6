"""A report before it is written down: sections of blocks, the same for HTML and Markdown. All texts are plain."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Running text."""

    text: str
    small: bool = False
    """A remark on what stands above."""


@dataclass(frozen=True, kw_only=True)
class Bullets:
    """Short texts below each other."""

    items: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Names and values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    texts: int = 1
    """So many columns from the left are texts; the others are numbers, which stand to the right."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure, drawn."""

    name: str
    """Of its file: ``pass-at-k``."""
    title: str
    """What it shows, for those who do not see it."""
    svg: str
    png: bytes


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of a terminal session."""

    kind: str
    """``task``, ``command``, ``output`` or ``note``."""
    text: str


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """An episode, shortened."""

    title: str
    lines: Sequence[Line]


Block = Paragraph | Bullets | Facts | Table | Picture | Transcript


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    lead: str
    """One or two sentences below the title."""
    sections: Sequence[Section]

    def pictures(self) -> list[Picture]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]
