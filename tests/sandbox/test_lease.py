"""Live runs say that they use a cache, and cleaning waits for nobody but is waited for."""

import subprocess
import sys
import threading
import time
from pathlib import Path

from runner.sandbox.lease import Lease, cleaning
from runner.share import share_dir

OWNER = """
import sys, time
from pathlib import Path
from runner.sandbox.lease import Lease
Lease(Path(sys.argv[1])).take()
print("taken", flush=True)
time.sleep(600)
"""


def test_without_runs_nobody_uses_it_and_nothing_is_made(tmp_path: Path) -> None:
    with cleaning(tmp_path / "cache") as since:
        assert since is None
    assert not (tmp_path / "cache").exists()


def test_the_longest_living_run_counts(tmp_path: Path) -> None:
    first, second = Lease(tmp_path), Lease(tmp_path)
    before = time.time() - 1
    first.take()
    between = time.time()
    time.sleep(0.05)
    second.take()
    second.take()
    with cleaning(tmp_path) as since:
        assert since is not None
        assert before < since <= between
    first.release()
    with cleaning(tmp_path) as since:
        assert since is not None
        assert since > between
    second.release()
    second.release()
    with cleaning(tmp_path) as since:
        assert since is None
    assert not list((tmp_path / "runs").glob("*.lease"))


def test_a_killed_run_uses_nothing_any_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, cwd=share_dir("configs").parent
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"taken\n"
        with cleaning(tmp_path) as since:
            assert since is not None
        owner.kill()
    with cleaning(tmp_path) as since:
        assert since is None
    assert not list((tmp_path / "runs").glob("*.lease"))


def test_a_run_that_begins_while_caches_are_cleaned_waits(tmp_path: Path) -> None:
    lease, taken = Lease(tmp_path), threading.Event()
    (tmp_path / "runs").mkdir()
    thread = threading.Thread(target=lambda: (lease.take(), taken.set()))
    with cleaning(tmp_path):
        thread.start()
        assert not taken.wait(0.3)
    assert taken.wait(10)
    thread.join()
    lease.release()
