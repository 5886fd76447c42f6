"""A document as one HTML file: no scripts, nothing from elsewhere, every text escaped."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runner.report.document import Block, Document
from runner.report.text import clean

_TEMPLATES = Path(__file__).parent / "templates"


def render_page(document: Document) -> str:
    """The whole page. Figures are inlined; a strict content policy keeps what slips in from doing anything."""
    return _environment().get_template("page.html.j2").render(document=document, anchors=anchors(document))


def anchors(document: Document) -> list[str]:
    """An id for each section."""
    return ["-".join(section.title.lower().split()) for section in document.sections]


def kind_of(block: Block) -> str:
    """The macro that writes a block: the name of its class, in small letters."""
    return type(block).__name__.lower()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters["kind"] = kind_of
    return made


def _shown(value: object) -> object:
    """Every plain text on its way into the page is cleaned; what is markup already stays as it is."""
    return clean(value) if type(value) is str else value
