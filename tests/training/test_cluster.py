"""Jobs handed to a real Ray cluster: followed to their end, and stopped with whoever submitted them."""

import contextlib
import http.client
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.processes import until
from support.real_trainer import trainer_environment, trainer_python

from runner.training.cluster import submitted
from runner.training.environment import free_port
from runner.training.errors import TrainerError
from runner.training.launch import Trainer, started

pytestmark = [pytest.mark.live, pytest.mark.trainer, pytest.mark.timeout(300)]

SLEEPER = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a job server, of a cluster of this machine alone."""
    ray, port = str(Path(trainer_python()).with_name("ray")), free_port()
    words = [ray, "start", "--head", "--block", "--disable-usage-stats", "--num-cpus=2", f"--port={free_port()}"]
    words += ["--include-dashboard=true", f"--dashboard-port={port}", "--object-store-memory=100000000"]
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [*words, f"--temp-dir={folder}"],
            env=trainer_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        family = psutil.Process(process.pid)
        try:
            assert until(lambda: _answers(port), 120), "Ray's job server does not answer"
            yield f"http://127.0.0.1:{port}"
        finally:
            members = [family, *family.children(recursive=True)]
            for member in members:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            process.wait()
            psutil.wait_procs(members[1:], 20)


def _answers(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/api/jobs/")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False


Submit = Callable[..., "contextlib.AbstractContextManager[Trainer]"]


@pytest.fixture
def submit(cluster: str, tmp_path: Path) -> Submit:
    """Hands a program of one line to the cluster, as a training is."""

    @contextlib.contextmanager
    def submit(program: str, *arguments: str) -> Iterator[Trainer]:
        words = [trainer_python(), "-c", program, *arguments]
        with (
            submitted(cluster, words, {"GREETING": "hello world"}, note=tmp_path / "job.txt") as command,
            started(command, os.environ, folder=tmp_path, log=tmp_path / "log", signs=[], silence=120) as trainer,
        ):
            yield trainer

    return submit


def _end(trainer: Trainer) -> None:
    while trainer.running():
        time.sleep(0.1)


def test_a_job_is_followed_to_its_end(submit: Submit, tmp_path: Path) -> None:
    with submit("import os; print(os.environ['GREETING'])") as trainer:
        _end(trainer)
    assert "hello world" in (tmp_path / "log").read_text()
    assert not (tmp_path / "job.txt").exists()


def test_a_job_that_fails_is_an_error_with_its_last_words(submit: Submit) -> None:
    with submit("raise SystemExit('no such dataset')") as trainer, pytest.raises(TrainerError, match="no such dataset"):
        _end(trainer)


def test_a_job_ends_with_its_submitter(submit: Submit, tmp_path: Path) -> None:
    with submit(SLEEPER, str(tmp_path / "pid")):
        assert until((tmp_path / "pid").exists, 60)
        pid = int((tmp_path / "pid").read_text())
        assert psutil.pid_exists(pid)
    assert until(lambda: not psutil.pid_exists(pid), 60)


def test_the_job_of_a_killed_run_is_stopped_before_the_next_one(cluster: str, submit: Submit, tmp_path: Path) -> None:
    words = [trainer_python(), "-c", SLEEPER, str(tmp_path / "pid")]
    with contextlib.ExitStack() as late:  # a run that is killed leaves nothing behind it in order
        killed = late.enter_context(submitted(cluster, words, {}, note=tmp_path / "job.txt"))
        with subprocess.Popen(killed, stdout=subprocess.DEVNULL) as client:
            assert until((tmp_path / "pid").exists, 60)
            client.send_signal(signal.SIGKILL)
        pid = int((tmp_path / "pid").read_text())
        assert psutil.pid_exists(pid), "the cluster goes on with it"
        with submit("import time; time.sleep(1)") as trainer:
            assert until(lambda: not psutil.pid_exists(pid), 60)
            _end(trainer)


def test_a_job_is_not_forgotten_while_its_cluster_does_not_answer(tmp_path: Path, caplog: Any) -> None:
    address, note = f"http://127.0.0.1:{free_port()}", tmp_path / "job.txt"
    with submitted(address, [trainer_python(), "-c", ""], {}, note=note):
        job = note.read_text()
    assert note.read_text() == job
    assert f"ray job stop --address {address} {job}` ends it" in caplog.text
    with (
        pytest.raises(TrainerError, match=f"an earlier attempt's job may still run: .*{job}` ends it"),
        submitted(address, [trainer_python(), "-c", ""], {}, note=note),
    ):
        pytest.fail("it was submitted beside the earlier one")


def test_a_job_that_the_cluster_does_not_know_is_forgotten(cluster: str, tmp_path: Path) -> None:
    (tmp_path / "job.txt").write_text("endless-of-yesterday")
    with submitted(cluster, [trainer_python(), "-c", ""], {}, note=tmp_path / "job.txt"):
        assert (tmp_path / "job.txt").read_text() != "endless-of-yesterday"
    assert not (tmp_path / "job.txt").exists()
