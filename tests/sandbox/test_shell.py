"""The persistent shell against everything that breaks shells, over plain pipes and in a container."""

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.shells import plain_shell

from runner.domain.errors import EngineError
from runner.sandbox.process import ProcessTransport
from runner.sandbox.shell import AGENT_ENV, Shell

LIMIT = 200_000  # as in conftest.py


def said(shell: Any, command: str, timeout: float = 10) -> str:
    """The output of a command that must not disturb the shell."""
    result = shell.run(command, timeout)
    trouble = (result.timed_out, result.truncated, result.restarted, result.refused)
    assert trouble == (False, False, False, ""), result
    return result.output.decode()


def assert_alive(shell: Any) -> None:
    assert said(shell, "echo alive") == "alive\n"


def test_variables_functions_and_folder_persist(shell: Any) -> None:
    said(shell, "cd /tmp; export A=1; b=2; f() { echo fn; }; declare -A m; m[k]=v")
    assert said(shell, 'pwd; echo "$A $b ${m[k]}"; f') == "/tmp\n1 2 v\nfn\n"
    assert shell.run("cd /", 5).cwd == "/"


def test_the_last_exit_code_persists(shell: Any) -> None:
    assert shell.run("(exit 7)", 5).exit_code == 7
    assert said(shell, "echo $?") == "7\n"
    assert said(shell, "echo $?") == "0\n"


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi # note", "hi\n", 0),
        ("# \udcf5", "", 0),
        ("# \udce7\udc8a", "", 0),
        ("printf abc", "abc", 0),
        ("", "", 0),
        ("# nothing", "", 0),
        ("cat", "", 0),
        ('read x; echo "got[$x]"', "got[]\n", 0),
        ("bash", "", 0),
        ("echo a \\", "a \\\n", 0),
        ("echo hello!world!!", "hello!world!!\n", 0),
        ("cat <<EOF\nline\n\ttab\nEOF", "line\n\ttab\n", 0),
        ("for i in 1 2; do\n echo $i\ndone", "1\n2\n", 0),
        ("echo " + "x" * 8000 + " | wc -c", "8001\n", 0),
        ("echo " + "x" * 300_000 + " | wc -c", "300001\n", 0),
        ("test -t 0 || test -t 1 || echo notty", "notty\n", 0),
        ("echo out; echo err >&2; echo out", "out\nerr\nout\n", 0),
        ("nosuchcommand", "bash: line 1: nosuchcommand: command not found\n", 127),
        ("true\nnosuchcommand", "bash: line 2: nosuchcommand: command not found\n", 127),
        ("(set -e; false; echo no)", "", 1),
        ("break", "", 0),
        ("continue", "", 0),
        ("echo é ✓ 漢", "é ✓ 漢\n", 0),
        ("git --version | head -c 3", "git", 0),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_command_says_what_bash_says(shell: Any, command: str, output: str, code: int) -> None:
    result = shell.run(command, 20)
    assert (result.output.decode(), result.exit_code) == (output, code)
    assert not result.restarted
    assert_alive(shell)


@pytest.mark.parametrize(
    "command", ['echo "abc', "foo() { echo", "if then", "cat <<EOF\nabc", "echo $(", "'", "((", "{"]
)
def test_broken_syntax_is_only_this_commands_problem(shell: Any, command: str) -> None:
    result = shell.run(command, 5)
    assert not result.timed_out
    assert not result.restarted
    assert_alive(shell)


def test_binary_output_arrives_unchanged(shell: Any) -> None:
    every_byte = r"for i in {0..255}; do printf \\x$(printf %x $i); done"
    assert shell.run(every_byte, 10).output == bytes(range(256))
    assert shell.run("head -c 100000 /dev/urandom", 10).exit_code == 0
    assert_alive(shell)


def test_set_x_shows_the_command_and_nothing_of_ours(shell: Any) -> None:
    said(shell, "set -x")
    assert said(shell, "echo a") == "++ echo a\na\n"
    said(shell, "set +x")
    assert said(shell, "echo b") == "b\n"


SIGHTS = {
    "variables": "set; env; declare -p; compgen -v; echo ${!BASH*} $BASH_EXECUTION_STRING $BASH_COMMAND $_",
    "functions and traps": "declare -f; trap -p; alias; shopt; set -o; history; fc -l; jobs -l; caller; hash",
    "processes": "ps -o args= --pid $$ --ppid $$; cat /proc/$$/cmdline /proc/$$/environ /proc/self/environ",
    "descriptors": "ls -l /proc/$$/fd /proc/self/fd; for fd in {0..239}; do read -r -t 0 -u $fd && echo $fd; done",
}


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_command_sees_a_nonce(shell: Any, sight: str) -> None:
    for command in ("set -a", SIGHTS[sight], SIGHTS[sight]):
        seen = shell.run(f"{command} 2>&1 || true", 10).output.decode("utf-8", "replace")
        assert not re.search(r"\b[0-9a-f]{32}\b", seen.replace("\0", "\n")), seen


def test_a_program_gets_no_descriptor_of_the_drivers(shell: Any) -> None:
    assert said(shell, "ls /proc/self/fd").split() == ["0", "1", "2", "3"]
    assert said(shell, "python3 -c 'import os; print(os.listdir(\"/proc/self/fd\"))'").count("'") == 8


def test_every_descriptor_below_240_is_the_agents(shell: Any) -> None:
    said(shell, 'for fd in {3..239}; do eval "exec $fd>fd.$fd"; done')
    said(shell, 'for fd in {3..239}; do eval "echo $fd >&$fd"; done')
    assert said(shell, "cat fd.3 fd.10 fd.11 fd.200 fd.239; ls fd.* | wc -l") == "3\n10\n11\n200\n239\n237\n"


def test_an_old_nonce_ends_nothing(shell: Any) -> None:
    said(shell, "trap '[[ ${__endless_nonce-} ]] && old=$__endless_nonce' DEBUG")
    said(shell, "true")
    said(shell, "trap - DEBUG")
    assert len(said(shell, "echo $old")) == 33, "the trap saw the nonce of a command that was over"
    result = shell.run("printf '%s 7 1 ,, /tmp\\0' $old; sleep 0.3; echo after", 10)
    assert (result.exit_code, result.cwd == "/tmp", result.output.endswith(b"after\n")) == (0, False, True)


def test_who_forges_the_end_of_a_command_lies_to_itself_alone(shell: Any) -> None:
    forged = shell.run("read -r -d '' -u 240 n; printf '%s 7 1 ,, /nowhere\\0' \"$n\"", 10)
    assert (forged.exit_code, forged.cwd) == (7, "/nowhere")
    assert shell.run("echo lost", 10).restarted
    assert_alive(shell)


def test_redirecting_the_shell_does_not_silence_it(shell: Any) -> None:
    said(shell, "exec >/dev/null 2>&1")
    assert said(shell, "echo visible") == "visible\n"


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("echo bye; exit 3", 3, "bye\n"),
        ("exec echo replaced", 0, "replaced\n"),
        ("kill -9 $$", 137, ""),
        ("set -e\necho a\nfalse\necho no", 1, "a\n"),
        ("set -u; echo $NOPE; echo no", 127, "bash: line 1: NOPE: unbound variable\n"),
        ("break 9", 0, ""),
        ("sleep 300 & exit 4", 4, ""),
    ],
)
def test_a_shell_that_dies_is_opened_again_in_the_same_folder(shell: Any, command: str, code: int, output: str) -> None:
    said(shell, "mkdir -p 'a b'; cd 'a b'; kept=1")
    folder = said(shell, "pwd")
    result = shell.run(command, 10)
    assert (result.exit_code, result.restarted, result.timed_out) == (code, True, False)
    assert result.output.decode() == output
    assert said(shell, "pwd; echo [$kept]") == f"{folder}[]\n"


def test_a_folder_that_is_gone_is_replaced_by_the_home(shell: Any) -> None:
    home = said(shell, "cd; pwd")
    said(shell, "mkdir gone; cd gone; rmdir ../gone")
    assert shell.run("exit", 5).restarted
    assert said(shell, "pwd") == home


def test_a_folder_of_any_name_is_found_again(shell: Any) -> None:
    for name in ("'two\nlines '", "$'no\\xfftext'", "-n", "'a  b\t'"):
        said(shell, f"mkdir -p -- {name}; cd -- {name}")
        before = shell.run("true", 5).cwd
        assert shell.run("exit", 5).restarted
        assert shell.run("cd ..", 5).cwd == before.rpartition("/")[0]


def test_a_false_pwd_deceives_nobody(shell: Any) -> None:
    for lie in ("PWD=/nope", "unset PWD", "PWD=/etc", "PWD=$(head -c 200000 /dev/zero | tr '\\0' x)"):
        assert shell.run(f"cd /usr; {lie}", 10).cwd == "/usr"


def test_a_shell_that_dies_between_two_commands_runs_the_next_one(shell: Any) -> None:
    said(shell, "cd /usr; (sleep 0.2; kill -9 $$) &")
    time.sleep(1)
    result = shell.run("pwd", 10)
    assert (result.output, result.exit_code, result.restarted) == (b"/usr\n", 0, True)


PID = os.getpid()
"""In the arguments of ``sleep``, so that other test runs on this machine do not count."""


def test_a_timeout_ends_the_command_and_keeps_the_shell(shell: Any) -> None:
    said(shell, f"sleep 311.{PID} & kept=1")
    result = shell.run(f"echo partial; sleep 312.{PID}; echo never", 1)
    assert (result.timed_out, result.exit_code, result.restarted) == (True, None, False)
    assert result.output == b"partial\n"
    left = said(shell, f"echo $kept; jobs | grep -c 'sleep 311'; pgrep -fc 'sleep 31[2].{PID}'; true")
    assert left == "1\n1\n0\n"
    said(shell, "kill %1")


def test_a_timeout_of_the_shell_itself_opens_a_new_one(shell: Any) -> None:
    began = time.monotonic()
    result = shell.run("cd /tmp; while :; do :; done", 1)
    assert (result.timed_out, result.restarted) == (True, True)
    assert time.monotonic() - began < 15
    assert_alive(shell)


@pytest.mark.parametrize(
    "command",
    [
        f"bash -c 'trap \"\" INT TERM; sleep 321.{PID}; sleep 321.{PID}'",
        f"sleep 322.{PID} | sleep 322.{PID}",
        f"bash -c 'sleep 323.{PID} & wait'",
        "kill -STOP $$",
    ],
    ids=["ignores TERM", "pipeline", "grandchild", "stopped shell"],
)
def test_a_timeout_ends_even_what_ignores_signals(shell: Any, command: str) -> None:
    assert shell.run(command, 1).timed_out
    assert said(shell, f"pgrep -fc 'sleep 32[123].{PID}'; true") == "0\n"


def test_a_flood_is_cut_at_the_limit(shell: Any) -> None:
    result = shell.run("yes", 20)
    assert (result.truncated, result.timed_out, result.exit_code) == (True, False, None)
    assert result.output == b"y\n" * (LIMIT // 2)
    assert_alive(shell)


def test_output_of_exactly_the_limit_is_whole(shell: Any) -> None:
    result = shell.run(f"head -c {LIMIT} /dev/zero", 20)
    assert (len(result.output), result.truncated, result.exit_code) == (LIMIT, False, 0)


def test_a_background_job_may_print_later(shell: Any) -> None:
    assert said(shell, "(sleep .3; echo late) & echo now") == "now\n"
    assert said(shell, "sleep 1; echo next") == "late\nnext\n"


def test_a_nul_byte_is_refused(shell: Any) -> None:
    result = shell.run("echo a\0b", 5)
    assert "NUL" in result.refused
    assert (result.output, result.exit_code) == (b"", None)
    assert_alive(shell)


def test_a_lone_surrogate_is_refused(shell: Any) -> None:
    assert shell.run("echo \ud800", 5).refused
    assert_alive(shell)


NASTY = [
    "'",
    '"',
    "`",
    "$(",
    ")",
    "(",
    "{",
    "}",
    "<<E",
    "\n",
    "\\",
    "#",
    "&",
    "|",
    ";",
    "exit 3",
    "set -e",
    "set -u",
    "break",
]
NASTY += [
    "return",
    "exec",
    "false",
    "trap",
    "${x:?}",
    "set -x",
    "shopt -s extglob",
    "[[",
    "case",
    "IFS=x",
    "unset PWD",
    "\r",
]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(NASTY) | st.text(st.characters(exclude_characters="/<>"), max_size=5), max_size=8))
def test_any_text_runs_or_is_refused_and_the_next_command_works(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as home, plain_shell(Path(home), LIMIT) as shell:
        shell.run(" ".join(parts), 2)
        after = shell.run("set +eux; echo alive", 5)
        assert after.output.endswith(b"alive\n")


def test_a_program_that_is_no_shell_is_an_engine_error(tmp_path: Path) -> None:
    shell = Shell(
        open=lambda argv, cwd: ProcessTransport(["/bin/echo", "not a shell"], env=AGENT_ENV),
        execute=lambda argv: None,
        limit=LIMIT,
        home=str(tmp_path),
    )
    with pytest.raises(EngineError, match="not a shell"):
        shell.run("true", 5)
    shell.close()
