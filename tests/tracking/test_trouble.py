"""Tracking that fails costs one plain warning and little time, and never the run."""

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.reports import filter_report, generate_report, run_info
from support.stores import Store, publish_all, tracker

from runner.tracking.address import default_uri
from runner.tracking.ui import running


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_down_costs_one_warning_and_publishes_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, server: str
) -> None:
    run = run_info(tmp_path / "run", experiment="late")
    reports = generate_report(tmp_path / "g"), filter_report(tmp_path / "f")
    address = f"http://me:hunter2@127.0.0.1:{_free_port()}"
    began = time.monotonic()
    publish_all(tracker(tmp_path, address), run, *reports)
    assert time.monotonic() - began < 5
    [warning] = _warnings(caplog)
    assert "could not begin the run at http://127.0.0.1:" in warning
    assert "nothing answers there" in warning
    assert "the run goes on, run the same command again to publish" in warning
    assert "hunter2" not in warning
    publish_all(tracker(tmp_path, server), run, *reports)
    assert len(Store(server, "late").parents()) == 1


def test_a_server_that_dies_in_mid_run_costs_one_warning(outputs: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(default_uri(outputs), "127.0.0.1", 0) as (address, _):
        part = tracker(outputs, address)
        part.begin(run_info(outputs / "run"))
        part.publish(generate_report(outputs / "g"))
        deadline = time.monotonic() + 30
        while '"published": true' not in (_read(outputs / "run" / "tracking.json")) and time.monotonic() < deadline:
            time.sleep(0.05)
    began = time.monotonic()
    part.publish(filter_report(outputs / "f"))
    part.progress("dataset", {"dataset/train": 1.0}, 1)
    part.end("done")
    assert time.monotonic() - began < 10
    [warning] = _warnings(caplog)
    assert "could not publish filter" in warning


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@contextmanager
def _http_server(status: int | None) -> Iterator[str]:
    """A server that gives every request this status, or never answers."""
    gate = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            if status is None:
                gate.wait(30)
            else:
                self.send_response(status)
                self.end_headers()

        do_GET = do_POST = do_PUT = answer

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as fake:
        thread = threading.Thread(target=fake.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{fake.server_port}"
        finally:
            gate.set()
            fake.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "words"),
    [(None, "no answer within 1 s"), (401, "it wants a login (401)"), (403, "it does not allow that (403)")],
)
def test_a_server_that_hangs_or_refuses_is_given_up_in_bounded_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, status: int | None, words: str
) -> None:
    with _http_server(status) as address:
        began = time.monotonic()
        publish_all(
            tracker(tmp_path, address, timeout=1.0), run_info(tmp_path / "run"), generate_report(tmp_path / "g")
        )
        assert time.monotonic() - began < 8
    [warning] = _warnings(caplog)
    assert words in warning


def test_a_database_that_cannot_be_opened_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mlflow.db").mkdir()
    publish_all(tracker(tmp_path), run_info(tmp_path / "run"), generate_report(tmp_path / "g"))
    [warning] = _warnings(caplog)
    assert "the database file cannot be opened" in warning


def test_calls_from_many_threads_end_up_in_one_run(outputs: Path, quiet: None) -> None:
    part = tracker(outputs)
    part.begin(run_info(outputs / "run"))
    threads = [
        threading.Thread(target=part.progress, args=(f"phase{i % 3}", {f"phase{i % 3}/items": float(i)}, i))
        for i in range(12)
    ]
    threads += [threading.Thread(target=part.publish, args=(generate_report(outputs / "g"),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    part.end("done")
    store = Store(default_uri(outputs))
    [parent] = store.parents()
    children = store.children(parent)
    assert children["generate"].info.status == "FINISHED"
    assert {run.info.status for name, run in children.items() if name != "generate"} <= {"KILLED"}


_SCRIPT = """
import logging, resource, sys
from pathlib import Path
from support.reports import filter_report, generate_report, run_info
from support.stores import publish_all, tracker
assert "mlflow" not in sys.modules, "imported too early"
logging.basicConfig(level=logging.INFO, format="%(message)s")
outputs, size = Path(sys.argv[1]), int(sys.argv[2])
run, reports = run_info(outputs / "run"), [generate_report(outputs / "g"), filter_report(outputs / "f")]
if size:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
publish_all(tracker(outputs), run, *reports)
"""


def _script(folder: Path, size: int) -> subprocess.CompletedProcess[str]:
    """A run in a process of its own, whose files may not grow over ``size`` bytes (0: any size)."""
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{_SCRIPT}", str(folder), str(size)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_a_run_with_a_new_store_writes_nothing_to_the_console(tmp_path: Path) -> None:
    done = _script(tmp_path, 0)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    done = _script(tmp_path, 100_000)
    [line] = done.stderr.splitlines()
    assert "tracking: could not begin the run" in line
