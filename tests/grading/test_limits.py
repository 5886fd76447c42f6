"""What no verifier of ours prevents, pinned: if one of these tests fails, a limit is gone, and sandboxes/README.md must
say so. Each is a habit of test writers to avoid: the wrong work passes."""

from typing import TYPE_CHECKING

import pytest

from runner.domain.episode import Outcome

if TYPE_CHECKING:
    from conftest import Engine

LIMITS = {
    "a test that imports the agent's code runs it in the grader": (
        """mkdir work; cat >work/solution.py <<'E'
import pathlib
pathlib.Path.read_text = lambda *_, **__: "42"
def answer(): return 1
E
        echo 1 >answer.txt""",
        """
import pathlib, sys
sys.path.insert(0, "/home/user/work")
import solution
def test_answer():
    assert pathlib.Path("/home/user/answer.txt").read_text() == "42"
""",
    ),
    "a script of the agent's repairs what a later test looks at": (
        "echo 1 >answer.txt; echo 'echo 42 >/home/user/answer.txt' >run.sh",
        """
import pathlib, subprocess
def test_script(): subprocess.run(["bash", "/home/user/run.sh"], check=True)
def test_answer(): assert pathlib.Path("/home/user/answer.txt").read_text() == "42\\n"
""",
    ),
    "python3 -c loads modules from the folder that it is started in": (
        "echo '{}' >result.json; printf 'def load(file): return {\"total\": 42}\\n' >json.py",
        """
import subprocess
def test_result():
    program = "import json; print(json.load(open('result.json'))['total'])"
    assert subprocess.check_output(["python3", "-c", program], text=True).strip() == "42"
""",
    ),
    "programs read their settings from the agent's home": (
        "printf '.print 42\\n.exit\\n' >.sqliterc; sqlite3 -init /dev/null db 'create table t(x)'",
        """
import subprocess
def test_database():
    query = ["sqlite3", "/home/user/db", "select x from t"]
    assert subprocess.check_output(query, stderr=subprocess.DEVNULL).strip() == b"42"
""",
    ),
    "whatever a script prints, it prints": (
        "echo 'echo all 3 tests passed' >run.sh",
        """
import subprocess
def test_script(): assert b"passed" in subprocess.check_output(["bash", "/home/user/run.sh"])
""",
    ),
}
INSTEAD = {
    "data, read by the test itself": (
        "echo '{}' >result.json; printf 'def load(file): return {\"total\": 42}\\n' >json.py",
        """
import json, pathlib
def test_result(): assert json.loads(pathlib.Path("/home/user/result.json").read_text())["total"] == 42
""",
    ),
    "a database, read by the test itself": (
        "printf '.print 42\\n.exit\\n' >.sqliterc; sqlite3 -init /dev/null db 'create table t(x)'",
        """
import sqlite3
def test_database(): assert sqlite3.connect("/home/user/db").execute("select x from t").fetchall() == [(42,)]
""",
    ),
    "the agent's code in a program of its own, its result read last": (
        """printf 'import os, pathlib\\npathlib.Path.read_text = lambda *_: "42"\\nos._exit(0)\\n' >solution.py""",
        """
import pathlib, subprocess
def test_answer(tmp_path):
    subprocess.run(["python3", "/home/user/solution.py", tmp_path / "out"], check=True)
    assert (tmp_path / "out").read_text() == "42"
""",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limit(engine: "Engine", name: str) -> None:
    work, test = LIMITS[name]
    with engine.start() as sandbox:
        sandbox.run(work, timeout=10)
        verdict = engine.verify(sandbox, test)
    assert verdict.outcome is Outcome.PASS, verdict.log


@pytest.mark.parametrize("name", INSTEAD)
def test_the_way_to_write_it_that_is_safe(engine: "Engine", name: str) -> None:
    work, test = INSTEAD[name]
    with engine.start() as sandbox:
        sandbox.run(work, timeout=10)
        verdict = engine.verify(sandbox, test)
    assert verdict.outcome is Outcome.FAIL, verdict.log
