"""The shell behind one-shot executions answers as a shell on a pipe does: output, exit codes, folders, limits."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shells import plain_shell
from support.tunnels import tunnel_shell

from runner.domain.errors import EngineError
from runner.evaluation.harbor.tunnel import PIECE, Tunnel
from runner.sandbox.base import ExecResult

LIMIT = 100_000
COMMANDS = [
    "cd /usr; export A=1; b=2; f() { echo fn; }; shopt -s expand_aliases; alias x='echo aliased'; set -o pipefail",
    'pwd; echo "$A $b"; f; x',
    "false | true",
    "echo out; echo err >&2; echo out again; (exit 7)",
    "echo $?; set +o pipefail",
    "printf 'no newline'",
    "printf 'a\\0b\\377\\n'",
    'read line; echo "got[$line]"',
    "cat <<'EOF'\nseveral\n\tlines\nEOF",
    r"env | grep -v 'ENDLESS_TEST_SHELL\|USER\|LOGNAME' | sort",
    "trap; python3 -c 'import signal; print(signal.getsignal(signal.SIGINT))'",
    "exit 3",
    'pwd; echo "$A $b"; f',
    "kill -9 $$",
    "kill -INT $$; sleep 5",
    "exec sh -c 'exit 4'",
    f"head -c {LIMIT * 3} /dev/zero | tr '\\0' y",
    "echo alive",
    "sleep 20 & echo started",
    "kill %1; wait %1; echo $?",
    "cd; rm -rf gone; mkdir gone; cd gone; rmdir ../gone; pwd",
    "if",
    "nul\0byte",
]


def seen(result: ExecResult) -> ExecResult:
    return replace(result, seconds=0.0)


def test_every_answer_is_that_of_a_shell_on_a_pipe(tmp_path: Path) -> None:
    with plain_shell(tmp_path, LIMIT) as plain, tunnel_shell(tmp_path, LIMIT) as (tunnelled, _):
        for command in COMMANDS:
            assert seen(tunnelled.run(command, 10)) == seen(plain.run(command, 10)), command


def test_a_command_that_overruns_its_time_is_ended_with_what_it_started(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, _):
        shell.run("kept=1; sleep 31.4 & spared=$!", 5)
        began = time.monotonic()
        result = shell.run("echo before; (sleep 31.5; echo inner) | cat", 1.0)
        assert time.monotonic() - began < 8
        assert (result.output, result.timed_out, result.exit_code, result.restarted) == (b"before\n", True, None, False)
        left = shell.run("echo $kept; ps -eo args | grep '^sleep 31'; kill $spared", 5).output
        assert left == b"1\nsleep 31.4\n"


def test_a_quick_command_takes_one_execution(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, executions):
        shell.run("true", 5)
        before = executions.count
        for _ in range(3):
            shell.run("echo quick", 5)
        assert executions.count - before <= 4  # one of them may have been slow


def test_a_shell_that_died_between_two_commands_is_opened_before_the_next_one_runs(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, _):
        shell.run("(sleep 0.2; kill -9 $$) & x=1", 5)
        time.sleep(1.0)
        result = shell.run('echo "ran[$x]"', 5)
        assert (result.output, result.exit_code, result.restarted) == (b"ran[]\n", 0, True)


def test_a_shell_is_opened_again_when_what_watches_it_was_killed(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, _):
        assert shell.run("kill -9 $PPID; sleep 20", 10).exit_code == 137
        assert shell.run("echo alive", 10).output == b"alive\n"


def test_what_a_background_job_prints_later_comes_with_the_next_command(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, _):
        assert shell.run("(sleep 0.3; echo late) & echo soon", 5).output == b"soon\n"
        time.sleep(1.0)
        assert shell.run("echo next", 5).output == b"late\nnext\n"


def test_long_commands_arrive_whole(tmp_path: Path) -> None:
    text = "x" * (3 * PIECE)
    with tunnel_shell(tmp_path) as (shell, _):
        assert shell.run(f"echo {text} | wc -c", 20).output.split() == [str(len(text) + 1).encode()]


def test_warnings_of_the_engine_do_not_get_into_the_output(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path, noise='level=warning msg="obsolete"\n') as (shell, _):
        assert shell.run("echo clean", 5).output == b"clean\n"


def test_jobs_outlive_the_release_and_may_go_on_printing(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, executions):
        shell.run("(for i in 1 2 3 4; do sleep 0.2; echo $i; done; echo whole > finished) & true", 5)
        executions.tunnels[-1].release()
        deadline = time.monotonic() + 10
        while not (tmp_path / "finished").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (tmp_path / "finished").read_text() == "whole\n"
    for process in marked(tmp_path):  # a sandbox's end, which there is none of here
        process.kill()


def test_a_closed_shell_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    with tunnel_shell(tmp_path) as (shell, _):
        shell.run("echo here", 5)
        assert list(tmp_path.glob(".endless-*"))
    assert not list(tmp_path.glob(".endless-*"))
    assert not marked(tmp_path)


def marked(folder: Path) -> list[psutil.Process]:
    """The processes that name the folder in their command, or are in it."""
    found = psutil.process_iter(["cmdline", "cwd"])
    return [process for process in found if str(folder) in f"{process.info['cwd']} {process.info['cmdline']}"]


@settings(max_examples=12, deadline=None)
@given(data=st.binary(max_size=400))
def test_any_bytes_arrive_as_they_were_printed(data: bytes, tmp_path_factory: Any) -> None:
    home = tmp_path_factory.mktemp("bytes", numbered=True)
    (home / "data").write_bytes(data)
    with tunnel_shell(home) as (shell, _):
        assert shell.run("cat data", 5).output == data


def test_an_engine_that_gives_no_answer_is_infrastructure_trouble() -> None:
    with pytest.raises(EngineError, match=r"gave no answer.*no such container"):
        Tunnel(lambda command, *, root, seconds: "Error: no such container", ["bash"]).send(b"x")


def test_scripts_are_readable_by_bash() -> None:
    folder = Path(Tunnel.__init__.__code__.co_filename).with_name("inside")
    for script in folder.glob("*.sh"):
        assert os.system(f"bash -n {script}") == 0
