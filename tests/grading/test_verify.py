"""What the verifier says about test files, and why; the same on every engine."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError
from runner.grading.verify import Reason, verify
from runner.sandbox.base import ExecResult, Role, Sandbox

if TYPE_CHECKING:
    from conftest import Engine

PASS, FAIL = Outcome.PASS, Outcome.FAIL
FIXTURE = "import pytest\n@pytest.fixture\ndef f():\n    "
CASES = {
    "passes": ("def test_a():\n    assert True\ndef test_b():\n    pass\n", Reason.PASSED, (2, 2, 0, 0)),
    "assertion": ("def test_a():\n    assert 1 == 2\ndef test_b(): pass\n", Reason.ASSERTION, (2, 1, 1, 0)),
    "pytest.fail": ("import pytest\ndef test_a():\n    pytest.fail('no')\n", Reason.ASSERTION, (1, 0, 1, 0)),
    "exception": ("def test_a():\n    open('/no/such')\n", Reason.ERROR, (1, 0, 1, 0)),
    "both": ("def test_a():\n    open('/no/such')\ndef test_b():\n    assert 0\n", Reason.ASSERTION, (2, 0, 2, 0)),
    "syntax": ("def test_a(:\n", Reason.COLLECTION_ERROR, (0, 0, 0, 1)),
    "import": ("import nothing_like_it\ndef test_a(): pass\n", Reason.COLLECTION_ERROR, (0, 0, 0, 1)),
    "assert at import": ("assert 0\ndef test_a(): pass\n", Reason.COLLECTION_ERROR, (0, 0, 0, 1)),
    "exit at import": ("import sys\nsys.exit(0)\n", Reason.COLLECTION_ERROR, (0, 0, 0, 0)),
    "setup": (f"{FIXTURE}assert 0\ndef test_a(f): pass\n", Reason.FIXTURE_ERROR, (1, 0, 0, 1)),
    "teardown": (f"{FIXTURE}yield\n    assert 0\ndef test_a(f): pass\n", Reason.FIXTURE_ERROR, (1, 1, 0, 1)),
    "no such fixture": ("def test_a(nothing_like_it): pass\n", Reason.FIXTURE_ERROR, (1, 0, 0, 1)),
    "empty": ("x = 1\n", Reason.NO_TESTS, (0, 0, 0, 0)),
    "skip": (
        "import pytest\n@pytest.mark.skip\ndef test_a(): pass\ndef test_b(): pass\n",
        Reason.SKIPPED,
        (2, 1, 0, 0),
    ),
    "skip in test": ("import pytest\ndef test_a():\n    pytest.skip('later')\n", Reason.SKIPPED, (1, 0, 0, 0)),
    "xfail": ("import pytest\n@pytest.mark.xfail\ndef test_a():\n    assert 0\n", Reason.ASSERTION, (1, 0, 0, 0)),
    "exit": ("import sys\ndef test_a():\n    sys.exit(0)\n", Reason.ERROR, (1, 0, 1, 0)),
    "hard exit": ("import os\ndef test_a():\n    os._exit(0)\n", Reason.CRASH, (0, 0, 0, 0)),
    "suicide": ("import os\ndef test_a():\n    os.kill(os.getpid(), 9)\n", Reason.CRASH, (0, 0, 0, 0)),
    "stop": ("import pytest\ndef test_a(): pass\ndef test_b():\n    pytest.exit('x', 0)\n", Reason.ERROR, (2, 1, 0, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_and_the_counts(engine: "Engine", untouched: Sandbox, name: str) -> None:
    test, reason, counts = CASES[name]
    verdict = engine.verify(untouched, test, quiesce=False)
    assert verdict.reason is reason, verdict.log
    assert verdict.outcome is (PASS if reason is Reason.PASSED else FAIL)
    assert (verdict.collected, verdict.passed, verdict.failed, verdict.errors) == counts


def check(engine: "Engine", sandbox: Sandbox, body: str) -> None:
    """``body`` is the inside of a test function, which must pass."""
    test = (
        f"import os, subprocess, sys, pathlib\ndef test_it(tmp_path):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    )
    verdict = engine.verify(sandbox, test, quiesce=False)
    assert verdict.outcome is PASS, verdict.log


def test_the_modules_that_tests_import_are_there(engine: "Engine", untouched: Sandbox) -> None:
    check(
        engine,
        untouched,
        """
        import csv, datetime, grp, gzip, hashlib, json, pwd, re, shutil, sqlite3, ssl, stat, tarfile, tempfile, zipfile
        import bz2, configparser, ctypes, difflib, lzma, socket, urllib.request, uuid, xml.etree.ElementTree, zoneinfo
        assert pwd.getpwuid(1000).pw_name == "user" and grp.getgrnam("user").gr_gid == 1000
        assert pwd.getpwnam("nobody").pw_name == "nobody"
        try:
            pwd.getpwnam("nobody-like-this")
        except KeyError:
            pass
        else:
            assert False
        assert sqlite3.connect(":memory:").execute("select 1 + 1").fetchone() == (2,)
        assert hashlib.md5(b"").hexdigest().startswith("d41d8c")
        """,
    )


def test_a_test_runs_as_root_in_the_agents_home_with_a_plain_environment(engine: "Engine", untouched: Sandbox) -> None:
    check(
        engine,
        untouched,
        """
        assert os.geteuid() == 0 and os.getcwd() == "/home/user"
        ours = {name for name in os.environ if not name.startswith("PYTEST_")}
        assert ours == {"PATH", "HOME", "LANG"} and os.environ["HOME"] == "/home/user", os.environ
        assert pathlib.Path("file").read_text() == "untouched\\n"
        assert pathlib.Path("/srv/data").read_text() == "data\\n"
        assert "/home/user" not in sys.path and "" not in sys.path
        """,
    )


@pytest.mark.parametrize(
    "call",
    [
        "subprocess.run(['id', '-u'], capture_output=True, text=True, check=True).stdout",
        "subprocess.check_output('id -u', shell=True, text=True)",
        "os.popen('id -u').read()",
        "str(os.system('test $(id -u) = 1000 && exit 3') // 256 * 1000 // 3)",
        "subprocess.run(['id', '-u'], stdout=subprocess.PIPE, text=True, preexec_fn=lambda: None).stdout",
        "subprocess.check_output([sys.executable, '-c', 'import os; print(os.getuid())'], text=True)",
    ],
)
def test_programs_that_tests_start_run_as_the_agent(engine: "Engine", untouched: Sandbox, call: str) -> None:
    check(engine, untouched, f"assert ({call}).strip() == '1000'")


def test_programs_that_tests_start_have_no_rights(engine: "Engine", untouched: Sandbox) -> None:
    check(
        engine,
        untouched,
        """
        status = subprocess.check_output(["cat", "/proc/self/status"], text=True)
        fields = dict(line.split(":\\t", 1) for line in status.splitlines() if ":\\t" in line)
        assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
        assert fields["NoNewPrivs"] == "1"
        """,
    )


def test_programs_that_tests_start_may_use_the_tests_temporary_folders(engine: "Engine", untouched: Sandbox) -> None:
    check(
        engine,
        untouched,
        """
        import tempfile
        (tmp_path / "in").write_text("x")
        subprocess.run("cat in >out", shell=True, cwd=tmp_path, check=True)
        assert (tmp_path / "out").read_text() == "x"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run("echo y >out", shell=True, cwd=folder, check=True)
        """,
    )


def test_the_test_is_out_of_sight_of_the_programs_it_starts(engine: "Engine", untouched: Sandbox) -> None:
    check(
        engine,
        untouched,
        """
        secret = "do-not-" + "find-me"
        assert not os.path.exists(__file__)
        look = "grep -rlas do-not-[f]ind-me /home /tmp /run /var /srv /dev/shm / --exclude-dir=proc --exclude-dir=sys "
        look += "--exclude-dir=usr --exclude-dir=opt; cat /proc/*/environ /proc/*/cmdline; ls /proc/$PPID/fd"
        found = subprocess.run(look, shell=True, capture_output=True, text=True)
        said = found.stdout.replace(os.environ["PYTEST_CURRENT_TEST"], "")
        assert secret not in said and "test_final" not in said
        assert "ermission denied" in found.stderr
        """,
    )


def test_files_lie_beside_the_test(engine: "Engine", untouched: Sandbox) -> None:
    test = (
        "from pathlib import Path\ndef test_a():\n    assert (Path(__file__).parent / 'd/x').read_bytes() == b'\\0y'\n"
    )
    grader = engine.backend.grader
    verdict = verify(untouched, grader, test, timeout=30, files={"d/x": b"\0y"}, quiesce=False)
    assert verdict.outcome is PASS, verdict.log


def test_nothing_is_left_in_the_sandbox(engine: "Engine", untouched: Sandbox) -> None:
    listing = ["find", "/tmp", "/run", "/dev/shm", "/var/tmp", "/home"]
    before = untouched.exec(listing, role=Role.ROOT, timeout=20).output
    engine.verify(
        untouched, "def test_a(tmp_path):\n    (tmp_path / 'x').write_text('x')\n    assert 0\n", quiesce=False
    )
    assert untouched.exec(listing, role=Role.ROOT, timeout=20).output == before


def test_equal_results_have_equal_logs(engine: "Engine", untouched: Sandbox) -> None:
    test = (
        "import time\ndef test_a(tmp_path):\n    time.sleep(0.3)\n    print(__file__)\n    assert str(tmp_path) == ''\n"
    )
    first, second = (engine.verify(untouched, test, quiesce=False).log for _ in range(2))
    assert first == second
    assert "/tests/test_final_state.py:5: in test_a" in first
    assert "assert str(tmp_path) == ''" in first
    assert "1 failed" in first


def test_a_long_log_keeps_its_end(engine: "Engine", untouched: Sandbox) -> None:
    test = "def test_a():\n    print('x' * 100_000_0)\n    print('the end')\n    assert 0, 'my reason'\n"
    verdict = engine.verify(untouched, test, quiesce=False)
    assert verdict.reason is Reason.ASSERTION
    assert "the end" in verdict.log
    assert len(verdict.log) <= 20_000


@pytest.mark.parametrize(
    "hang",
    [
        "time.sleep(100)",
        "subprocess.run(['sleep', '100'])",
        "re.match(r'(a+)+$', 'a' * 60 + 'b')",  # holds the interpreter's lock
    ],
)
def test_a_test_that_hangs_is_a_fail(engine: "Engine", hang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.grading.verify.GRACE_SECONDS", 2.0)
    test = f"import re, subprocess, time\ndef test_ok(): pass\ndef test_a():\n    {hang}\n"
    with engine.start() as sandbox:
        verdict = engine.verify(sandbox, test, timeout=2)
        assert (verdict.outcome, verdict.reason) == (FAIL, Reason.TIMEOUT)
        if "match" not in hang:
            assert hang in verdict.log
        assert engine.verify(sandbox, "def test_a(): pass").outcome is PASS


class Broken:
    """A sandbox in which programs fail in a given way."""

    def __init__(self, *results: ExecResult) -> None:
        self._results = list(results)

    def run(self, command: str, *, timeout: float) -> ExecResult:
        raise AssertionError("no command is due")

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        """There is nothing to end."""

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        nonce = stdin.partition(b'"nonce": "')[2][:32]
        result = self._results.pop(0)
        return ExecResult(output=result.output.replace(b"NONCE", nonce), exit_code=result.exit_code, seconds=0.0)


def judged(*results: tuple[bytes, int]) -> Reason:
    broken = Broken(*(ExecResult(output=output, exit_code=code, seconds=0.0) for output, code in results))
    return verify(broken, Path("/grader"), "", timeout=1).reason


def test_a_grader_that_does_not_start_is_infrastructure_trouble() -> None:
    with pytest.raises(EngineError, match=r"did not start.*no such loader"):
        judged((b"no such loader", 127))


def test_a_sandbox_that_breaks_under_the_tests_is_infrastructure_trouble() -> None:
    with pytest.raises(EngineError, match="broke while the tests ran"):
        judged((b"\nNONCEready\n", 137), (b"", 137))


class Crowded(Broken):
    """A sandbox in which nothing of ours starts until the services that were kept have ended, if then."""

    def __init__(self, *, recovers: bool) -> None:
        super().__init__()
        self._recovers, self._quiet = recovers, False

    def quiesce(self, keep_ports: Sequence[int] = ()) -> None:
        self._quiet = not keep_ports

    def exec(
        self, argv: Sequence[str], *, role: Role, timeout: float, stdin: bytes = b"", cwd: str = "/"
    ) -> ExecResult:
        if not (self._quiet and self._recovers):
            raise EngineError("no process can be started")
        return ExecResult(output=argv[-1].encode(), exit_code=0, seconds=0.0)


def test_a_grader_that_works_only_without_the_kept_services_is_their_fail() -> None:
    verdict = verify(Crowded(recovers=True), Path("/grader"), "", timeout=1, keep_ports=(8080,))
    assert (verdict.outcome, verdict.reason) == (FAIL, Reason.CRASH)
    assert "no process can be started" in verdict.log
    with pytest.raises(EngineError):
        verify(Crowded(recovers=False), Path("/grader"), "", timeout=1, keep_ports=(8080,))


@pytest.mark.parametrize(("code", "change"), [(1, {}), (0, {"exit": 1}), (0, {"collected": 2}), (0, {"failed": 1})])
def test_a_pass_needs_everything_to_agree(code: int, change: dict[str, int]) -> None:
    import json

    report = {"collected": 1, "passed": 1, "failed": 0, "errors": 0, "exit": 0, "reason": "passed", "log": ""}
    line = b"\nNONCEready\n\nNONCE%s\n" % json.dumps(report | change).encode()
    assert judged((line, code)) is Reason.CRASH
    assert judged((b"\nNONCEready\n\nNONCE%s\n" % json.dumps(report).encode(), 0)) is Reason.PASSED
