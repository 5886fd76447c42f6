"""A document on disk: ``<name>.html``, ``<name>.md`` and the figures of the Markdown."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from runner.report.document import Document, Picture
from runner.report.markdown import FIGURES, render_markdown
from runner.report.page import render_page
from runner.store.jsonl import storage_errors, write_text

T = TypeVar("T")


def write_document(document: Document, folder: Path, name: str, mask: Callable[[str], str]) -> list[Path]:
    """Write it; every text passes ``mask``, which hides secrets. Returns what was written. Raises StorageError."""
    document, figures = masked(document, mask), folder / FIGURES
    with storage_errors(figures):
        figures.mkdir(parents=True, exist_ok=True)
        for picture in document.pictures():
            (figures / f"{picture.name}.png").write_bytes(picture.png)
    page, text = folder / f"{name}.html", folder / f"{name}.md"
    write_text(page, render_page(document))
    write_text(text, render_markdown(document))
    return [page, text, figures]


def masked(part: T, mask: Callable[[str], str]) -> T:
    """A document, or a part of one, with every text masked before its form can hide what is to be masked."""
    made: object = part
    if isinstance(part, str):
        made = mask(part)
    elif isinstance(part, list | tuple):
        made = type(part)(masked(item, mask) for item in part)
    elif is_dataclass(part) and not isinstance(part, type | Picture):
        made = replace(part, **{field.name: masked(getattr(part, field.name), mask) for field in fields(part)})
    return made  # type: ignore[return-value]
