"""A document on disk: ``<name>.html``, ``<name>.md`` and the figures of the Markdown."""

from collections.abc import Callable
from pathlib import Path

from runner.report.document import Document
from runner.report.markdown import FIGURES, render_markdown
from runner.report.page import render_page
from runner.store.jsonl import storage_errors, write_text


def write_document(document: Document, folder: Path, name: str, mask: Callable[[str], str]) -> list[Path]:
    """Write it; every text passes ``mask``, which hides secrets. Returns what was written. Raises StorageError."""
    figures = folder / FIGURES
    with storage_errors(figures):
        figures.mkdir(parents=True, exist_ok=True)
        for picture in document.pictures():
            (figures / f"{picture.name}.png").write_bytes(picture.png)
    page, text = folder / f"{name}.html", folder / f"{name}.md"
    write_text(page, mask(render_page(document)))
    write_text(text, mask(render_markdown(document)))
    return [page, text, figures]
