"""The program inside the sandbox that runs a hidden test file. Never imported here: ``verify`` sends its text.

It runs on the grader's own Python (``sandbox/runtime.py``), as the sandbox's root, with nothing but the standard
library and pytest. The test, the limits and the nonce arrive on standard input, so no command line, environment or file
shows them. The test lies in a folder that only root may enter, and only until it is collected: no program of the agent
runs before that, but for services that the task keeps. Programs that the tests start run as the agent; beside kept
services, as a user whom these have no power over. The result is one line that begins with the nonce, which exists in
this process's memory alone.
"""

import base64
import contextlib
import errno
import json
import linecache
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from runner.grading.links import refuse_links, refuse_swaps  # its text stands before this one in the sandbox

HOME = "/home/user"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AGENT = 1000
PRIVATE_PLACES = ("/run/endless", "/tmp", "/dev/shm", "/")
"""Where the test's folder may lie. The first, where a backend has it, is root's alone, so nobody can have filled it."""
NEW_USER_NAMESPACE, NO_NEW_PRIVILEGES = 0x10000000, 38
PLUGINS_OFF = ("cacheprovider", "faulthandler", "doctest", "junitxml", "pastebin")


def main(payload: Mapping[str, Any], out: int) -> NoReturn:
    """Run the test and write the report. Leaves by ``os._exit``, so that no exit handler of a test runs."""
    nonce = payload["nonce"].encode()
    _write(out, b"\n" + nonce + b"ready\n")  # from here on, trouble comes from the test or from the agent's files
    screen, places, report = _redirect(), Places(), Report()

    def finish(exit_code: int, reason: str = "") -> NoReturn:
        signal.setitimer(signal.ITIMER_REAL, 0)
        log = places.scrub(_tail(screen, payload["log_bytes"]))
        places.remove()
        said = {**report.counts, "exit": exit_code, "reason": reason or report.reason(exit_code), "log": log}
        _write(out, b"\n" + nonce + json.dumps(said).encode() + b"\n")
        os._exit(0 if said["reason"] == "passed" else 1)

    def late(_: int, frame: FrameType | None) -> NoReturn:
        os.write(screen, f"Out of time. What ran, innermost last:\n{_stack(frame)}".encode())
        finish(1, "timeout")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, payload["seconds"])
    try:
        test = places.write(payload)
        scratch = places.make("/tmp/pytest", PRIVATE_PLACES[1:])
    except OSError as error:
        os.write(screen, f"the test could not be put in place: {error}\n".encode())
        finish(1, "no_space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "error")
    _environment()
    children = payload["children"] if os.geteuid() == 0 else AGENT
    _demote_children(children)
    refuse_links()
    if payload["children"] != AGENT:
        refuse_swaps()
    finish(_pytest(test, Folders(test, scratch, children), report))


class Places:
    """The folders of this run, and their names taken out of logs, so that equal results have equal logs."""

    def __init__(self) -> None:
        self._folders: dict[Path, str] = {}

    def write(self, payload: Mapping[str, Any]) -> Path:
        """Put the test and its files where only root can read them; returns the test's path. Raises OSError."""
        folder = self.make("/tests", PRIVATE_PLACES)
        for name, content in payload["files"].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(content))
        test = folder / str(payload["name"])
        test.write_text(payload["test"], encoding="utf-8", errors="surrogateescape")
        return test

    def make(self, shown: str, places: tuple[str, ...]) -> Path:
        """A new folder for root only, shown in logs as ``shown``. Raises OSError when it can be made nowhere."""
        trouble = OSError("there is no folder for it")
        for place in places:
            folder = Path(place) / f"endless-{secrets.token_hex(8)}"
            try:
                folder.mkdir(mode=0o700)
            except OSError as error:
                trouble = error
            else:
                self._folders[folder] = shown
                return folder
        raise trouble

    def scrub(self, log: str) -> str:
        """The log without what differs between equal runs."""
        for folder, shown in self._folders.items():
            log = log.replace(str(folder), shown)
        return re.sub(r" in \d+\.\d+s( \(\d+:\d\d:\d\d\))?(?=\s*$)", "", log, flags=re.MULTILINE)

    def remove(self) -> None:
        """Delete them all."""
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


class Report:
    """A pytest plugin that counts, and knows why a test failed."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("collected", "passed", "failed", "errors", "skipped"), 0)
        self._kinds: set[str] = set()

    def reason(self, exit_code: int) -> str:
        """Why this is not a pass (the worst thing that happened), or ``passed``."""
        for kind in ("collection_error", "fixture_error"):
            if kind in self._kinds:
                return kind
        if not self.counts["collected"]:
            return "no_tests" if exit_code == pytest.ExitCode.NO_TESTS_COLLECTED else "collection_error"
        for kind in ("assertion", "error", "skipped"):
            if kind in self._kinds:
                return kind
        return "passed" if exit_code == 0 and self.counts["passed"] == self.counts["collected"] else "error"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that does not import, or does not parse."""
        if report.failed:
            self.counts["errors"] += 1
            self._kinds.add("collection_error")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """How many tests there are."""
        self.counts["collected"] = len(session.items)

    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> None:
        """Remember what kind of exception it was; pytest makes the report."""
        if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
            return
        asserted = call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
        self._kinds.add("fixture_error" if call.when != "call" else "assertion" if asserted else "error")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a phase of a test."""
        if report.skipped:
            self.counts["skipped"] += 1
            self._kinds.add("skipped")
        elif report.failed:
            self.counts["failed" if report.when == "call" else "errors"] += 1
        elif report.when == "call":
            self.counts["passed"] += 1


class Folders:
    """A pytest plugin: the test's file goes once it is collected, and what tests write is open to what they start."""

    def __init__(self, test: Path, scratch: Path, children: int) -> None:
        """``children``: the user that programs of the tests run as."""
        self._test, self.scratch, self._children = test, scratch, children

    def pytest_collection_finish(self) -> None:
        """Remove the file, keeping its lines for tracebacks."""
        lines = self._test.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        linecache.cache[str(self._test)] = (1, None, lines, str(self._test))
        self._test.unlink()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        """pytest makes its temporary folders for root only; programs that tests start are not root."""
        value = yield
        if fixturedef.argname == "tmp_path":
            _hand_over(value, self._children)
            for folder in (self.scratch, *self.scratch.iterdir()):
                folder.chmod(0o711)
        return value


def _pytest(test: Path, folders: Folders, report: Report) -> int:
    """pytest's exit code. Neither the sandbox's files nor its environment have a say in how it runs."""
    options = [
        "-q",
        "-rN",
        "--tb=short",
        "--color=no",
        "--no-header",
        "--disable-warnings",
        "--noconftest",
        "-c",
        os.devnull,
    ]
    options += ["--import-mode=importlib", f"--rootdir={test.parent}", f"--basetemp={folders.scratch / 'tests'}"]
    options += [f"-pno:{name}" for name in PLUGINS_OFF]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return int(pytest.main([*options, str(test)], plugins=[report, folders]))


def _redirect() -> int:
    """Standard input becomes empty; output goes to memory, whose descriptor is returned, so nothing floods the pipe."""
    screen = os.memfd_create("screen")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(screen, 1)
    os.dup2(screen, 2)
    return screen


def _tail(screen: int, limit: int) -> str:
    with contextlib.suppress(RuntimeError, ValueError, OSError):  # interrupted in mid-write, or a test closed it
        sys.stdout.flush()
    size = os.fstat(screen).st_size
    return os.pread(screen, limit, max(0, size - limit)).decode("utf-8", "replace")


def _stack(frame: FrameType | None) -> str:
    """Where the tests were, without the grader's own frames."""
    steps = [step for step in traceback.extract_stack(frame) if not step.filename.startswith(("<", sys.prefix))]
    return "".join(traceback.format_list(steps))


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


def _environment() -> None:
    """What the tests see: a plain environment, the agent's home as the working directory, the sandbox's own Python."""
    os.environ.clear()
    os.environ.update(PATH=PATH, HOME=HOME, LANG="C.UTF-8")
    os.chdir(HOME if Path(HOME).is_dir() else "/")
    os.umask(0o022)
    sys.argv[:] = ["pytest"]
    sys.executable = shutil.which("python3") or sys.executable


def _demote_children(user: int) -> None:
    """Programs that tests start run as ``user``, who is of the agent's group and so can read what the agent shares with
    it. Not covered: a test that forks by itself (``os.fork``, ``pty``)."""
    if os.geteuid() != 0:
        return
    options: dict[str, Any] = {"user": user, "group": AGENT, "extra_groups": []}
    single = not (_mapped("uid") and _mapped("gid"))
    enter = _own_namespace() if single else None
    start: Callable[..., None] = subprocess.Popen.__init__
    make = tempfile.mkdtemp

    def demoted(self: Any, *args: Any, preexec_fn: Callable[[], Any] | None = None, **keywords: Any) -> None:
        if enter is None:
            start(self, *args, preexec_fn=preexec_fn, **{**options, **keywords})
        else:
            start(self, *args, preexec_fn=_both(enter, preexec_fn), **keywords)

    def shared(*args: Any, **keywords: Any) -> Any:
        folder = make(*args, **keywords)
        _hand_over(Path(folder), user)  # for the same reason as tmp_path
        return folder

    subprocess.Popen.__init__ = demoted  # type: ignore[method-assign]
    tempfile.mkdtemp = shared
    os.system = lambda command: _wait_status(subprocess.call(command, shell=True))


def _hand_over(folder: Path, user: int) -> None:
    """Let the programs of the tests use a folder, but no kept service: what it finds there it could change."""
    if user == AGENT or not _mapped("uid"):
        folder.chmod(0o777)
    else:
        os.chown(folder, user, -1)
        folder.chmod(0o700)


def _both(first: Callable[[], Any], second: Callable[[], Any] | None) -> Callable[[], None]:
    def run() -> None:
        first()
        if second is not None:
            second()

    return run


def _wait_status(code: int) -> int:
    """What ``os.system`` returns where ``subprocess.call`` returns ``code``."""
    return -code if code < 0 else code << 8


def _mapped(kind: str) -> bool:
    """Whether the agent's id exists in this user namespace."""
    ranges = [line.split() for line in Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()]
    return any(int(first) <= AGENT < int(first) + int(count) for first, _, count in ranges)


def _own_namespace() -> Callable[[], None]:
    """For sandboxes with a single user: a child becomes the agent in a user namespace of its own, without rights."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)

    def enter() -> None:
        if libc.unshare(NEW_USER_NAMESPACE) != 0:
            raise OSError(ctypes.get_errno(), "cannot start a program as the agent")
        for file, text in (("setgroups", "deny"), ("gid_map", f"{AGENT} 0 1"), ("uid_map", f"{AGENT} 0 1")):
            Path(f"/proc/self/{file}").write_text(text, encoding="ascii")
        libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)

    return enter


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))), os.dup(1))
