"""The page: whole, closed to the outside, and indifferent to what strangers write."""

import os
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.finished import Finished, analysed, whole

from runner.compose import compose
from runner.report.document import Bullets, Document, Facts, Line, Paragraph, Section, Table, Transcript
from runner.report.page import render_page
from runner.report.text import clean

HOSTILE = (
    "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}{% x %}&amp;$x_{2}$ `a` | b\x1b[31m"
)
_VOID = {"meta", "br", "hr", "img", "link", "input"}


class Parsed(HTMLParser):
    """Tags that match, and the text of every cell. Raises AssertionError for a page that is not whole."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)
        if tag in ("td", "pre"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "pre"):
            self.cells[-1] += data


def page_of(*blocks) -> str:
    return render_page(Document(title="t", lead="l", sections=[Section(title="s", blocks=blocks)]))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The report of a run whose every text is hostile."""
    root = tmp_path_factory.mktemp("hostile")
    config = compose("paper/qwen2.5-7b", ["eval=dev", "policy=qwen3-8b", "sft=solver", "filter.n=4"])
    analysed(whole(root, config, instruction=HOSTILE), root / "out")
    return (root / "out" / "report.html").read_text()


def test_a_whole_page_is_well_formed_and_its_ids_are_unique(page):
    parsed = Parsed(page)
    ids = [attributes["id"] for _, attributes in parsed.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    links = [attributes["href"][1:] for tag, attributes in parsed.tags if tag == "a"]
    assert links
    assert set(links) <= set(ids)


def test_it_asks_for_nothing_from_elsewhere(page):
    assert not re.search(r"https?://|//[a-z]|@import|url\((?!#)", page)
    assert not {"script", "link", "iframe", "object", "img", "image", "form", "base"} & {
        tag for tag, _ in Parsed(page).tags
    }
    assert "default-src 'none'" in page


def test_hostile_text_is_text(page):
    assert "<script" not in page
    assert "onerror=alert(1)&gt;" in page
    assert "{{ 7*7 }}" in page
    assert not any(name.startswith("on") for _, attributes in Parsed(page).tags for name in attributes)
    assert "\x1b" not in page


def test_secrets_of_the_environment_are_masked(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "SOME_API_KEY", "sk_very*secret&0123456789")
    made = Finished(tmp_path, compose("quickstart"), instruction="Use sk_very*secret&0123456789 to log in.")
    analysed(made.generate().filter(), tmp_path / "out")
    for name in ("report.html", "report.md"):
        text = (tmp_path / "out" / name).read_text()
        assert "Use *** to log in." in text
        assert "0123456789" not in text


@given(st.text(), st.text())
def test_any_text_reads_as_it_was_written_but_for_what_cannot_be_shown(one, other):
    cells = Parsed(
        page_of(Table(columns=["a"], rows=[[one]]), Transcript(title=other, lines=[Line(kind="output", text=other)]))
    )
    # HTML itself drops a line break right behind <pre>, and reads \r\n as \n; \r is one of those that cannot be shown
    assert cells.cells == [clean(one), clean(other)]


@given(st.text())
def test_any_text_anywhere_leaves_the_page_whole(text):
    blocks = (Paragraph(text=text), Bullets(items=[text]), Facts(rows=[(text, text)]))
    made = Document(title=text, lead=text, sections=[Section(title=text or "s", blocks=blocks)])
    Parsed(render_page(made))
