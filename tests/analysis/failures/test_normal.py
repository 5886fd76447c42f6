"""When two commands, or two results, are the same."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.failures.normal import normal_command, normal_result, without_numbers, without_temporary_numbers


@pytest.mark.parametrize(
    "spellings",
    [
        ["ls -la /srv", " ls  -la   /srv ", "ls -al /srv", "ls -a -l /srv", "ls -la /srv;", "ls -la /srv # look"],
        ["grep 'a b' f|wc -l", 'grep "a b" f | wc -l', "grep a\\ b f | wc -l", "# count\ngrep 'a b' f | \\\n wc -l"],
        ["cd x && make", "cd x &&\n  make\n", "cd 'x' && \"make\""],
        ["for f in a b; do cat $f; done", "for f in a b\ndo\n  cat $f\ndone", 'for f in a b; do cat "$f"; done'],
        ["cat > f <<EOF\nx  # kept\nEOF", "cat >f <<'END'\nx  # kept\nEND\n", "cat > f << EOF\nx  # kept  \nEOF"],
        ["sudo rm -rf build", "sudo rm -fr build", "sudo rm -f -r 'build'"],
        ["python3 /tmp/tmp.Ab3dEfGh/a.py", "python3 /tmp/tmp.Zk9sQwEr/a.py"],
        ["cp a /tmp/a.X1y2Z3", "cp a /tmp/a.q9W8e7"],
        ["date -d @1767607200", "date -d @1767607299"],
        ["cp a b-20260105-101500", "cp a b-20260106-091501"],
        ["touch log-2026-01-05T10:15:00Z", "touch log-2026-01-06T11:15:07Z"],
        ["echo $'a\\nb'  x", "echo $'a\\nb' x"],
    ],
)
def test_cosmetic_changes_leave_the_command_the_same(spellings: list[str]):
    assert len({normal_command(one) for one in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("grep '$x' f", 'grep "$x" f'),
        ("ls '*.txt'", "ls *.txt"),
        ("echo 'a  b'", "echo a  b"),
        ("cat a b", "cat b a"),
        ("find . -name x -print", "find . -print -name x"),
        ("sort -t , -k 2 f", "sort -k 2 -t , f"),
        ("ls > out", "ls >> out"),
        ("a && b", "a || b"),
        ("a; b", "a | b"),
        ("head -n 5 f", "head -n 50 f"),
        ("cat <<EOF\na\nEOF", "cat <<EOF\nb\nEOF"),
        ("echo a#b", "echo a"),
        ("echo ''", "echo"),
        ("sed -i 's/a/b/' f", "sed -i 's/a/c/' f"),
        ("ls -l -- -a", "ls -l -a"),
        ("grep 2026-01-05 f", "grep 2026-01-06 f"),
        ("grep 10:15 f", "grep 10:16 f"),
        ("docker run -p 80:80 x", "docker run -p 81:81 x"),
        ("rm /tmp/part1", "rm /tmp/part2"),
        ("cat /tmp/a.parquet", "cat /tmp/a.feather"),
    ],
)
def test_what_means_something_else_stays_different(one: str, other: str):
    assert normal_command(one) != normal_command(other)


def test_numbered_temporary_names_can_be_made_the_same():
    assert without_temporary_numbers("sh /tmp/try1.sh 5") == without_temporary_numbers("sh /tmp/try12.sh 5") != "sh N 5"
    assert without_temporary_numbers("sh try1.sh") == "sh try1.sh"


def test_only_variants_lose_their_numbers():
    assert normal_command("python3 try1.py --n 10") != normal_command("python3 try2.py --n 20")
    assert without_numbers("python3 try1.py --n 1.5") == without_numbers("python3 try22.py --n 7")


@pytest.mark.parametrize(
    "results",
    [
        ["1 passed in 0.03s", "1 passed in 1.25s"],
        ["real\t0m0.003s", "real\t0m10.5s"],
        ["-rw-r--r-- 1 user user 5 Jan  5 10:15 a", "-rw-r--r-- 1 user user 5 Jan  5 10:16 a"],
        ["Mon Jan  5 10:15:00 UTC 2026", "Tue Jan  6 11:00:09 UTC 2026"],
        ["[1] 4711", "[1] 4722"],
        ["server running, PID 99", "server running, PID 1234"],
        ["at 1767607200: error", "at 1767607299: error"],
        ["id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174000"],
        ["<obj at 0x7f00aa>", "<obj at 0x7f11bb>"],
        ["/tmp/tmpa1b2c3d4: gone", "/tmp/tmpz9y8x7w6: gone"],
    ],
)
def test_what_changes_by_itself_is_no_new_result(results: list[str]):
    assert len({normal_result(one) for one in results}) == 1


def test_other_numbers_are_progress():
    shown = [
        "42 %",
        "43 %",
        "main.c:12:34: error",
        "main.c:12:40: error",
        "3 left",
        "2 left",
        "total 101",
        "d41d8cd98f00b204",
        "e99a18c428cb38d5",
    ]
    assert all(normal_result(one) != normal_result(other) for one, other in pairwise(shown))


_WORDS = st.lists(
    st.sampled_from(["ls", "-l", "-a", "a.txt", "'b c'", '"$x"', "$(date)", "|", "&&", ";", ">f"]), min_size=1
)


@given(_WORDS)
@settings(max_examples=100, deadline=None)
def test_white_space_never_matters(words: list[str]):
    assert normal_command(" ".join(words)) == normal_command("  " + "   ".join(words) + " \n")
