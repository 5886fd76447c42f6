"""The episode's state machine."""

from dataclasses import replace

import pytest

from runner.agent.harness import PROMPTS, Ask, End, Harness, Run, opening
from runner.domain.episode import EndReason
from runner.llm.base import Completion, Finish, Usage
from runner.prompts import PromptSet
from runner.sandbox.base import ExecResult
from runner.schema import Agent

PROMPT_SET = PromptSet.open(PROMPTS, "default")


def harness(**settings):
    return Harness(replace(Agent(), **settings), "Count the lines of /home/user/a.txt.", PROMPT_SET)


def says(text, *, used=1000, wrote=50, finish=Finish.STOP, drift=None):
    usage = Usage(input_tokens=used, output_tokens=wrote)
    return Completion(text=text, usage=usage, finish=finish, drift=drift)


def gave(output=b"3\n", code=0, **more):
    return ExecResult(output=output, exit_code=code, seconds=0.1, cwd="/home/user", **more)


def command(text):
    return f"<think>I try.</think><command>{text}</command>"


def test_an_episode_goes_from_question_to_command_to_observation_to_done():
    h = harness()
    first = h.start()
    assert isinstance(first, Ask)
    assert [m.role for m in first.messages] == ["system", "user"]
    assert h.on_reply(says(command("wc -l a.txt")), 1.0) == Run("wc -l a.txt", 30.0)
    second = h.on_result(gave(code=7), 1.1)
    assert isinstance(second, Ask)
    assert "Exit code: 7" in second.messages[-1].content
    assert "/home/user" in second.messages[-1].content
    assert h.on_reply(says("<action>done</action>"), 2.0) == End(EndReason.DONE)
    assert [t.command for t in h.turns] == ["wc -l a.txt", None]
    assert h.turns[0].exit_code == 7


def test_a_folder_whose_name_is_no_text_or_no_end_can_still_be_sent_to_a_model():
    h = harness()
    h.start()
    h.on_reply(says(command("cd x")), 0.0)
    asked = h.on_result(replace(gave(), cwd="/tmp/\udcff\n" + "d" * 4000), 0.1)
    assert isinstance(asked, Ask)
    assert "/tmp/\ufffd\nd" in asked.messages[-1].content
    assert len(asked.messages[-1].content.encode()) < 3000


def test_the_last_turns_command_still_runs():
    h = harness(max_turns=1)
    h.start()
    assert isinstance(h.on_reply(says(command("ls")), 0.0), Run)
    assert h.on_result(gave(), 0.1) == End(EndReason.TURN_LIMIT)


def test_an_unparsable_reply_is_nudged_and_costs_a_turn():
    h = harness(max_turns=2)
    h.start()
    nudge = h.on_reply(says("no tags"), 0.0)
    assert isinstance(nudge, Ask)
    assert "exactly one action" in nudge.messages[-1].content
    assert h.turns[0].invalid
    h.on_reply(says(command("ls")), 0.0)
    assert h.on_result(gave(), 0.0) == End(EndReason.TURN_LIMIT)


def test_unparsable_replies_in_a_row_end_the_episode_but_not_with_a_good_one_between():
    h = harness(max_invalid=2)
    h.start()
    h.on_reply(says("bad"), 0.0)
    h.on_reply(says(command("ls")), 0.0)
    h.on_result(gave(), 0.0)
    assert isinstance(h.on_reply(says("bad"), 0.0), Ask)
    assert h.on_reply(says("bad"), 0.0) == End(EndReason.INVALID_OUTPUT)


def test_a_reply_cut_at_the_token_limit_says_so():
    h = harness()
    h.start()
    h.on_reply(says("<think>on and on", finish=Finish.LENGTH), 0.0)
    assert "token limit" in h.turns[0].invalid


def test_the_context_is_measured_by_the_providers_figures():
    h = harness(context_tokens=4000, turn_tokens=2048)
    h.start()
    h.on_reply(says(command("ls"), used=3000, wrote=30), 0.0)
    ask = h.on_result(gave(), 0.0)
    assert isinstance(ask, Ask)
    assert 64 <= ask.max_tokens < 1000
    h.on_reply(says(command("ls"), used=3900, wrote=30), 0.0)
    assert h.on_result(gave(), 0.0) == End(EndReason.CONTEXT_FULL)


def test_a_server_that_says_the_context_is_full_ends_the_episode():
    h = harness()
    h.start()
    assert h.on_reply(says("", used=0, finish=Finish.CONTEXT), 0.0) == End(EndReason.CONTEXT_FULL)
    assert [t.command for t in h.turns] == [None]


def test_hidden_reasoning_does_not_fill_the_context():
    h = harness(context_tokens=4000)
    h.start()
    h.on_reply(says(command("ls"), used=500, wrote=30_000), 0.0)
    assert isinstance(h.on_result(gave(), 0.0), Ask)


def test_a_prompt_larger_than_the_context_ends_at_once():
    assert harness(context_tokens=300).start() == End(EndReason.CONTEXT_FULL)


def test_time_runs_out_between_turns_and_shortens_the_last_command():
    h = harness(episode_seconds=10.0, command_seconds=30.0)
    h.start()
    assert h.on_reply(says(command("sleep 60")), 6.0) == Run("sleep 60", 4.0)
    assert h.on_result(gave(timed_out=True, code=None), 10.0) == End(EndReason.TIME_LIMIT)


def test_a_reply_after_the_time_limit_is_not_run():
    h = harness(episode_seconds=10.0)
    h.start()
    assert h.on_reply(says(command("ls")), 11.0) == End(EndReason.TIME_LIMIT)
    assert h.turns[-1].command == "ls"


def test_after_a_crash_the_transcript_keeps_what_the_model_saw():
    h = harness()
    h.start()
    h.on_reply(says(command("date")), 0.0)
    h.on_result(gave(b"today"), 0.0)
    h.on_reply(says("<action>done</action>", drift="yesterday"), 0.0)
    assert h.turns[0].observation == "yesterday"


def test_the_opening_is_the_prompt_of_the_training_data():
    h = harness()
    ask = h.start()
    assert list(ask.messages) == opening(Agent(), "Count the lines of /home/user/a.txt.", PROMPT_SET)


@pytest.mark.parametrize("template", ["system", "task", "observation", "invalid"])
def test_templates_never_leave_a_variable_empty(template):
    with pytest.raises(ValueError, match="undefined"):
        PROMPT_SET.render(template) if template != "system" else PROMPT_SET.render("system", max_turns=1)
