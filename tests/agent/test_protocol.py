"""What a reply means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agent.harness import PROMPTS
from runner.agent.protocol import (
    Command,
    Done,
    Invalid,
    parse_reply,
    read_observation,
    render_output,
    status_lines,
    strip_thoughts,
)
from runner.prompts import PromptSet
from runner.sandbox.base import ExecResult

PROMPT_SET = PromptSet.open(PROMPTS, "default")


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<think>look</think><command>ls -la</command>", Command("ls -la")),
        ("<command>\ncat <<EOF\nx\nEOF\n</command>", Command("cat <<EOF\nx\nEOF")),
        ("Finished. <action>done</action>", Done()),
        ("<action> done </action>", Done()),
        ("it begins in a thought</think><command>pwd</command>", Command("pwd")),
        ("<think>a</think>x<think>b</think><command>echo '</think>'</command>", Command("echo '</think>'")),
    ],
)
def test_one_action_is_read(reply, action):
    assert parse_reply(reply) == action


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "just words",
        "<command>ls</command><command>pwd</command>",
        "<command>ls</command><action>done</action>",
        "<action>done</action><action>done</action>",
        "<command>   \n </command>",
        "<command>ls",
        "<action>quit</action>",
        "<think>never closed <command>ls</command>",
    ],
)
def test_anything_else_is_invalid_with_a_reason(reply):
    action = parse_reply(reply)
    assert isinstance(action, Invalid)
    assert action.reason


def test_an_action_inside_the_thoughts_does_not_count():
    reply = "<think>then I say <action>done</action> or <command>rm -rf /</command></think><command>ls</command>"
    assert parse_reply(reply) == Command("ls")


@given(st.text())
def test_any_text_parses_to_exactly_one_meaning(text):
    assert isinstance(parse_reply(text), Command | Done | Invalid)


@given(st.text(alphabet=st.characters(exclude_characters="<>")))
def test_text_without_tags_is_left_alone_by_stripping(text):
    assert strip_thoughts(f"<think>{text}</think>{text}") == text


@given(st.binary(max_size=5000), st.integers(1, 100))
def test_rendered_output_stays_near_its_limit(output, tokens):
    assert len(render_output(output, tokens)) <= tokens * 4 + 80


def test_a_cut_says_how_much_is_missing_and_keeps_both_ends():
    output = b"first\n" + b"x\n" * 5000 + b"last\n"
    text = render_output(output, 100)
    assert text.startswith("first")
    assert text.rstrip().endswith("last")
    assert "characters" in text
    assert "lines cut" in text


def test_a_killed_command_is_explained():
    result = ExecResult(output=b"", exit_code=None, seconds=30, timed_out=True, restarted=True)
    text = " ".join(status_lines(result, 30))
    assert "30 seconds" in text
    assert "restarted" in text


@given(
    st.text(st.characters(exclude_characters="\r", exclude_categories=("Cs",)), max_size=50),
    st.none() | st.integers(0, 255),
    st.sampled_from(["/home/user", "/", "/tmp/two\nlines", "/a b"]),
    st.booleans(),
)
def test_an_observation_can_be_taken_apart_again(output: str, code: int | None, cwd: str, late: bool) -> None:
    result = ExecResult(output=output.encode(), exit_code=code, seconds=0.1, cwd=cwd, timed_out=late)
    notes = status_lines(result, 30)
    rendered = render_output(result.output, 1000).rstrip("\n")
    text = PROMPT_SET.render("observation", exit_code=code, cwd=cwd, output=rendered, status=notes)
    seen = read_observation(text)
    assert (seen.cwd, seen.notes) == (cwd, tuple(notes))
    assert seen.output.strip() == rendered.strip()
