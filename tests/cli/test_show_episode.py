"""`endless show episode` reads like the recording of a terminal, whatever is in it."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from runner.agent.harness import PROMPTS
from runner.agent.protocol import render_output, status_lines
from runner.cli.episode import clock, show_episode, visible
from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.prompts import PromptSet
from runner.sandbox.base import ExecResult

PROMPT_SET = PromptSet.open(PROMPTS, "default")


def turn(command: str, result: ExecResult, thought: str = "I try.") -> Turn:
    observation = PROMPT_SET.render(
        "observation",
        exit_code=result.exit_code,
        cwd=result.cwd,
        output=render_output(result.output, 1000),
        status=status_lines(result, 30),
    )
    return Turn(
        reply=f"<think>{thought}</think><command>{command}</command>",
        command=command,
        observation=observation,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        input_tokens=1200,
        output_tokens=40,
        model_seconds=3.2,
        command_seconds=result.seconds,
    )


def ran(output: bytes = b"", code: int | None = 0, cwd: str = "/home/user", **more: bool) -> ExecResult:
    return ExecResult(output=output, exit_code=code, seconds=0.25, cwd=cwd, **more)


def shown(*turns: Turn, outcome: Outcome = Outcome.PASS, verdict: str = "", width: int = 80) -> str:
    end = EndReason.INFRA if outcome is Outcome.INFRA else EndReason.DONE
    episode = Episode(
        task_id="t", sample=2, outcome=outcome, end=end, turns=turns, prompt="Do it.", verdict=verdict, seconds=75.4
    )
    file = io.StringIO()
    show_episode(Console(file=file, width=width, highlight=False), episode)
    return file.getvalue()


def test_it_reads_from_top_to_bottom() -> None:
    text = shown(
        turn("cd /srv", ran(cwd="/srv")),
        turn("cat x", ran(b"one\ntwo\n", code=3, cwd="/srv"), "Look."),
        turn("cd", ran(cwd="/home/user/a b")),
        turn("ls", ran(b"x\n", cwd="/home/user/a b")),
        Turn(reply="<action>done</action>"),
    )
    parts = [
        *("episode t/2", "Do it.", "turn 1", "I try.", "$ cd /srv\n[exit 0, 0.25 s]", "turn 2", "Look."),
        *("user:/srv$ cat x\none\ntwo\n[exit 3, 0.25 s]", "turn 3", "user:/srv$ cd\n", "user:~/a b$ ls\nx\n", "turn 5"),
        *("done", "pass  ended by done after 5 turns in 1:15   model 13 s, commands 1.00 s   4,800 tokens in, 160 out"),
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "Exit code" not in text
    assert "Working directory" not in text


def test_what_happened_to_a_command_beyond_its_exit_code_is_said() -> None:
    text = shown(turn("sleep 99", ran(b"", code=None, timed_out=True, restarted=True)))
    assert "longer than 30 seconds" in text
    assert "The shell was restarted" in text
    assert "[no exit code, after 0.25 s]" in text


def test_a_failure_has_its_reason_and_infrastructure_its_remedy() -> None:
    assert "the verifier said" in shown(outcome=Outcome.FAIL, verdict="1 failed")
    text = shown(outcome=Outcome.INFRA, verdict="The daemon is gone. Start it.")
    assert "what went wrong" in text
    assert text.rstrip().endswith("The daemon is gone. Start it.")


def test_binary_output_neither_clears_the_screen_nor_looks_like_ours() -> None:
    output = (
        bytes(range(256)) + b"\x1b[2J\x1b]0;title\x07 \xe2\x80\xae drow [bold red]x[/] [exit 0]\r\nprogress\rdone\n"
    )
    text = shown(turn("cat \x1b[1m[/] x", ran(output)))
    assert not set(text) & set(map(chr, (*range(9), *range(11, 32), *range(127, 160))))
    assert "␛[2J␛]0;title␇" in text
    assert "\\u202e drow [bold red]x[/]" in text
    assert "[exit 0]\nprogress␍done\n" in text
    assert "$ cat ␛[1m[/] x\n" in text


def test_long_lines_stay_whole() -> None:
    line = "word " * 100
    text = shown(turn(f"echo {line}", ran(line.encode())), width=40)
    assert f"$ echo {line}\n{line}\n" in text.replace(" \n", "\n").replace(line.rstrip(), line)


def test_other_prompts_are_shown_as_they_are() -> None:
    assert "$ ls\nfiles: a b\n[exit 0" in shown(Turn(reply="", command="ls", observation="files: a b", exit_code=0))


@given(st.text())
def test_nothing_that_is_shown_moves_the_cursor(text: str) -> None:
    seen = visible(text)
    seen.encode("utf-8")
    assert not set(seen) & set(map(chr, (*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x202E)))


def test_times_are_short() -> None:
    assert [clock(seconds) for seconds in (0, 7.9, 75, 3723)] == ["0:00", "0:07", "1:15", "1:02:03"]
