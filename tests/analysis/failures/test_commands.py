"""Which programs a command runs, and what counts as a failed command."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.labelled import ran

from runner.analysis.failures.commands import is_failure, programs
from runner.analysis.failures.normal import normal_command
from runner.domain.episode import Turn


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la", "ls"),
        ("  /usr/bin/python3 x.py", "python3"),
        ("./run.sh && ../bin/tool", "run.sh tool"),
        ("cat a | grep b|sort -u | head -n 3", "cat grep sort head"),
        ("cd /srv && make || echo failed; ls &", "cd make echo ls"),
        ("A=1 B='x y' env C=2 python3 -c 'print(1)'", "env python3"),
        ("sudo -u bob -E systemctl restart nginx", "sudo systemctl"),
        ("timeout -s KILL 5 curl -s localhost", "timeout curl"),
        ("nohup nice -n 5 ./serve > log 2>&1 &", "nohup nice serve"),
        ("find . -name '*.txt' -exec wc -l {} + | xargs -n 1 rm -f", "find wc xargs rm"),
        ("(cd /x; ls) && { date; }", "cd ls date"),
        ("echo $(whoami) `hostname` \"$(date +%s)\"", "echo whoami hostname date"),
        ("diff <(sort a) <(sort b) > >(tee log)", "diff sort sort tee"),
        ("for f in *.txt; do wc -l \"$f\"; done", "wc"),
        ("while read line; do echo $line; done < <(ls)", "read echo ls"),
        ("if [ -f x ]; then cat x; elif grep -q y z; then ls; else pwd; fi", "[ cat grep ls pwd"),
        ("case $x in a) ls;; b|c) cat f ;; *) exit 1;; esac; echo hi", "ls cat exit echo"),
        ("greet() { echo hi; }; greet", "echo greet"),
        ("function greet { echo hi; }", "echo"),
        ("bash -c 'cd /x && make' ; sh script.sh", "bash cd make sh"),
        ("eval \"ls | wc\"", "eval ls wc"),
        ("command -v git && exec zsh", "command exec zsh"),
        ("! time -p make", "time make"),
        ("a=(one two) ; ((i++)) ; echo $((1 + 2)) ${x:-y}", "echo"),
        ("[[ -n $x ]] && $TOOL run", "[["),
        ("cat > a.py <<'EOF'\nimport os  # rm -rf /\nls | wc\nEOF\npython3 a.py", "cat python3"),
        ("cat <<-END | wc -l\n\ttext; ls\n\tEND\nls", "cat wc ls"),
        ("# just a comment\nls # and another", "ls"),
        ("grep '#' f; echo a#b", "grep echo"),
        ("echo 'rm; ls' \"a | b\" c\\;d", "echo"),
        ("ls \\\n  -la", "ls"),
        ("'ls' -l; \"/bin/cat\" x", "ls cat"),
        ("> empty.txt", ""),
        ("x=1", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_programs_are_found_wherever_bash_runs_them(command: str, expected: str):
    assert programs(command) == tuple(expected.split())


_PIECES = st.lists(
    st.sampled_from(["ls", " ", "'", '"', "$(", ")", "`", "<<", "EOF", "\n", "\\", "{", "case", ";;", "("])
)


@given(st.one_of(st.text(), _PIECES.map("".join)))
@example("$(" * 3000)
@example("sudo " * 3000)
@example("bash -c '" * 1000)
@settings(max_examples=100, deadline=None)
def test_any_text_is_taken(text: str):
    assert all(programs(text))
    assert normal_command(text) == normal_command(text)


@pytest.mark.parametrize(
    ("command", "code", "failed"),
    [
        ("ls", 0, False),
        ("ls missing", 2, True),
        ("grep x f", 1, False),
        ("grep x missing", 2, True),
        ("cat f | grep -c x", 1, False),
        ("grep x f; python3 a.py", 1, True),
        ("[ -f x ]", 1, False),
        ("[ -f x ] && echo yes", 1, False),
        ("(( 1 > 2 ))", 1, False),
        ("test -f x && python3 a.py", 1, True),
        ("python3 a.py", 1, True),
        ("diff a b", 1, False),
        ("./x", 127, True),
    ],
)
def test_a_failed_command_has_another_exit_code_than_0_unless_it_answers_a_question(command, code, failed):
    assert is_failure(ran(command, code)) is failed


def test_a_stopped_command_failed_and_one_that_was_never_run_did_not():
    assert is_failure(ran("sleep 100", stopped=True))
    assert not is_failure(Turn(reply="", command="ls"))
    assert not is_failure(Turn(reply="", invalid="no action", observation="again"))
