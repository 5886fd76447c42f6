"""Strict reading of a generator's reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.phases.generate.reply import ReplyError, ports, sections


def test_sections_are_read_without_fences_and_thoughts():
    thought = "<think>maybe <setup>x</setup></think>\n"
    reply = thought + "<setup>\n```bash\necho 1\n```\n</setup>\n<initial_test>\nassert 1\n</initial_test>"
    assert sections(reply, ("setup", "initial_test")) == {"setup": "echo 1\n", "initial_test": "assert 1\n"}


def test_an_optional_section_may_be_missing():
    assert sections("<setup>\na\n</setup>", ("setup",), ("start",)) == {"setup": "a\n"}


def test_a_tag_in_the_middle_of_a_line_is_text():
    reply = "<setup>\necho 'see </setup> and <setup> here'\n</setup>"
    assert sections(reply, ("setup",)) == {"setup": "echo 'see </setup> and <setup> here'\n"}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ("", "lacks <setup>"),
        ("<setup>\n</setup>", "empty"),
        ("<setup>\n```\n```\n</setup>", "empty"),
        ("<setup>\na\n</setup>\n<setup>\nb\n</setup>", "once"),
        ("<setup>\na", "once"),
        ("a\n</setup>\n<setup>", "once"),
        ("<think>\n<setup>\na\n</setup>", "never closed"),
    ],
)
def test_what_is_wrong_is_said(reply, says):
    with pytest.raises(ReplyError, match=says):
        sections(reply, ("setup",))


@given(st.text(alphabet=st.characters(exclude_characters="<>`\r", exclude_categories=["Cs"]), min_size=1))
def test_a_body_comes_back_as_written(body):
    if body.strip():
        assert sections(f"<setup>\n{body}\n</setup>", ("setup",))["setup"].strip("\n") == body.strip("\n")


def test_ports_are_numbers_apart_by_anything_usual():
    assert ports("8080\n") == (8080,)
    assert ports("8080, 9000 8080\n") == (8080, 9000)


@pytest.mark.parametrize("body", ["port 8080\n", "80\n", "65536\n", "8080/tcp\n", "-1\n", "²\n", "8" * 5000 + "\n"])
def test_what_the_agent_cannot_listen_on_is_no_port(body):
    with pytest.raises(ReplyError, match="TCP ports from 1024 to 65535"):
        ports(body)
