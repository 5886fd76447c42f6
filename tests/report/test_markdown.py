"""The Markdown file says the same as the page."""

import re

from hypothesis import given
from hypothesis import strategies as st

from runner.report.document import Document, Line, Paragraph, Picture, Section, Table, Transcript
from runner.report.markdown import render_markdown


def markdown_of(*blocks) -> str:
    return render_markdown(Document(title="t", lead="l", sections=[Section(title="s", blocks=blocks)]))


def test_tables_figures_and_episodes():
    text = markdown_of(
        Table(caption="Scores", columns=("model", "pass@1"), rows=[("base", "53.3 % [47.1, 59.4]")]),
        Picture(name="scores", title="pass@1 by model", svg="<svg/>", png=b""),
        Transcript(title="ppo, 3/0", lines=[Line(kind="command", text="ls"), Line(kind="output", text="a\nb")]),
    )
    assert "**Scores**\n\n| model | pass@1 |\n| --- | ---: |\n| base | 53.3 % \\[47.1, 59.4\\] |" in text
    assert "![pass@1 by model](figures/scores.png)" in text
    assert "```text\n$ ls\na\nb\n```" in text


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_row_keeps_its_cells_whatever_is_in_them(cells):
    row = markdown_of(Table(columns=["x"] * len(cells), rows=[cells])).rstrip("\n").split("\n")[-1]
    assert len(re.findall(r"(?<!\\)\|", re.sub(r"\\\\", "", row))) == len(cells) + 1


@given(st.text())
def test_an_episodes_text_cannot_leave_its_fence(text):
    block = markdown_of(Transcript(title="t", lines=[Line(kind="output", text=text)])).split("**t**\n\n")[1]
    fence = re.match(r"`+", block)[0]
    assert block.count(fence) == 2
    assert block.rstrip("\n").endswith(fence)


@given(st.text())
def test_a_paragraph_stays_one(text):
    body = markdown_of(Paragraph(text=text)).split("## s\n\n", 1)[1]
    assert "\n" not in body.rstrip("\n")
    assert not re.match(r"(#+ |- |\+ |\* |>|\d+[.)] |[-=]+$)", body)
