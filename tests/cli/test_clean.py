"""`endless clean`: what goes, what stays, and what it says."""

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.daemon import Daemon, private_daemon
from support.endless import Workplace

from runner.sandbox.docker.engine import Engine
from runner.sandbox.docker.labels import IMAGE, LIVE, MARK, OWNER, RUN, VOLUME, owner
from runner.sandbox.lease import Lease
from runner.store.scratch import PREFIX

DAY = 86400
NOWHERE = {"DOCKER_HOST": "unix:///nonexistent/engine.sock"}
Make = Callable[..., Path]


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    (tmp_path / "tmp").mkdir()
    return Workplace(tmp_path / "work", (), {**NOWHERE, "TMPDIR": str(tmp_path / "tmp")})


@pytest.fixture
def make(place: Workplace) -> Make:
    def file(name: str, *, days: float = 0, size: int = 1000) -> Path:
        path = place.folder / "outputs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (time.time(), time.time() - days * DAY))
        return path

    return file


def layer(number: int) -> str:
    return f"{number:032x}.tar"


def clean(place: Workplace, *words: str) -> str:
    done = place.endless("clean", *words)
    assert done.returncode == 0, done.stdout
    return done.stdout


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def row(printed: str, what: str) -> list[str]:
    """(removed, stays) of a line of the table."""
    line = next(line for line in printed.splitlines() if line.startswith(what))
    words = line.removeprefix(what).split()
    return [words[0], words[3]]


def test_only_what_nobody_used_for_long_goes(place: Workplace, make: Make) -> None:
    old, new = make(f"cache/local/{layer(1)}", days=20), make(f"cache/local/{layer(2)}", days=10)
    other = make("cache/local/notes.tar", days=99)
    printed = clean(place)
    assert row(printed, "local: task layers") == ["1", "1"]
    assert "used lately" in printed
    assert "results (store, runs, journal, MLflow) are not touched" in printed
    assert "docker: skipped. " in printed
    assert [path.exists() for path in (old, new, other)] == [False, True, True]
    clean(place, "--days", "9")
    assert [path.exists() for path in (old, new, other)] == [False, False, True]


def test_a_dry_run_removes_nothing(place: Workplace, make: Make) -> None:
    old = make(f"cache/local/{layer(1)}", days=20, size=5_000_000)
    printed = clean(place, "--dry-run")
    assert "would free 5.0 MB" in printed
    assert old.exists()
    assert "freed 5.0 MB" in clean(place)
    assert not old.exists()


def test_all_removes_whatever_is_kept_for_speed_and_no_result(place: Workplace, make: Make) -> None:
    results = [
        make(name, days=400)
        for name in ("store/generate/ab/tasks.jsonl", "store/journal/x.jsonl", "runs/r/run.json", "mlflow.db")
    ]
    cached = [make(f"cache/{folder}/{layer(1)}") for folder in ("local", "apptainer")]
    make("cache/grader/abc.lock")
    cached.append(make("cache/grader/abc/bin/python3"))
    make("cache/apptainer/base/def.lock")
    cached.append(make("cache/apptainer/base/def/etc/passwd"))
    make("cache/apptainer/base/ghi.lock")
    cached.append(make("cache/apptainer/base/ghi.sif"))
    cached.append(make("cache/apptainer/code/0123/runner/__init__.py"))
    printed = clean(place, "--all")
    assert [path for path in cached if path.exists()] == []
    assert all(path.exists() for path in results)
    assert row(printed, "apptainer: base images") == ["2", "0"]
    assert "freed 0 B" in clean(place, "--all")


def test_what_dead_processes_were_making_always_goes(place: Workplace, make: Make, tmp_path: Path) -> None:
    dead, alive = f"ab.{dead_process()}.0f.partial", f"ab.{os.getpid()}.0f.partial"
    folders = ("local", "apptainer", "apptainer/base", "apptainer/code")
    gone = [make(f"cache/{folder}/{dead}") for folder in folders]
    stays = [make(f"cache/{folder}/{alive}") for folder in folders]
    make("cache/grader/abc.lock")
    gone.append(make("cache/grader/abc.partial/bin/python3"))
    temporary = tmp_path / "tmp" / f"{PREFIX}x"
    temporary.mkdir()
    printed = clean(place)
    assert [path for path in (*gone, temporary) if path.exists()] == []
    assert all(path.exists() for path in stays)
    assert row(printed, "temporary folders") == ["1", "0"]


def test_what_a_live_run_has_used_stays_even_with_all(place: Workplace, make: Make) -> None:
    before = make(f"cache/local/{layer(1)}", days=1)
    lease = Lease(place.folder / "outputs" / "cache")
    lease.take()
    used = make(f"cache/local/{layer(2)}")
    make("cache/grader/abc.lock")
    python = make("cache/grader/abc/bin/python3", days=30)
    printed = clean(place, "--all")
    assert [path.exists() for path in (before, used, python)] == [False, True, True]
    assert "a run that works now uses it" in printed
    lease.release()
    clean(place, "--all")
    assert [path.exists() for path in (used, python)] == [False, False]


def test_the_longest_unused_beyond_the_limit_goes(place: Workplace, make: Make) -> None:
    layers = [make(f"cache/local/{layer(days)}", days=days, size=4_000_000) for days in (3, 1, 2)]
    clean(place, "--set", "cache_gb=0.0081")
    assert [path.exists() for path in layers] == [False, True, True]
    clean(place, "--set", "cache_gb=null")
    assert [path.exists() for path in layers] == [False, True, True]


def test_wrong_words_are_answered_in_a_line(place: Workplace) -> None:
    for words, said in (
        (("--days", "-1"), "--days is -1, but must be 0 or more"),
        (("--set", "cache_bg=1"), "cache_gb"),
    ):
        done = place.endless("clean", *words)
        assert done.returncode == 2
        assert said in done.stdout
        assert "Traceback" not in done.stdout


# An engine of its own, since `--all` empties one


@pytest.fixture
def daemon(docker_address: str) -> Iterator[Daemon]:
    with contextlib.ExitStack() as stack:
        try:
            opened = stack.enter_context(private_daemon(docker_address))
        except OSError as error:
            pytest.skip(str(error))
        yield opened


@pytest.mark.docker
@pytest.mark.live
def test_an_engine_loses_what_is_ours_and_nothing_else(place: Workplace, daemon: Daemon) -> None:
    engine = Engine(daemon.address)
    client = engine.client
    ours, inherited = f"LABEL {MARK}={IMAGE} {RUN}=x", f"LABEL {MARK}={IMAGE}"
    images = {
        **dict.fromkeys(("endless-task:a", "endless-task:b", "endless-base:c"), ours),
        "theirs:d": inherited,
        "endless-task:e": "LABEL some=other",
    }
    for number, (tag, label) in enumerate(images.items()):
        name, _, version = tag.partition(":")
        client.api.import_image_from_data(_files(number), name, version, changes=[label])
    client.volumes.create("endless-grader-1", labels={MARK: VOLUME})
    client.volumes.create("theirs")
    dead = owner().rsplit(":", 2)[0] + ":1:1.00"
    made = [
        client.api.create_container("endless-task:a", "x", labels={MARK: LIVE, OWNER: dead})["Id"],
        client.api.create_container("endless-task:b", "x", labels={MARK: LIVE, OWNER: owner(), RUN: "y"})["Id"],
        client.api.create_container("theirs:d", "x")["Id"],
    ]
    printed = place.endless("clean", "--all", "--set", f"address={daemon.address}").stdout
    try:
        tags = {tag for image in client.images.list() for tag in image.tags}
        assert tags == {"endless-task:b", "theirs:d", "endless-task:e"}, printed
        assert {container.id for container in client.containers.list(all=True)} == set(made[1:])
        assert {volume.name for volume in client.volumes.list()} == {"endless-grader-1", "theirs"}
        assert row(printed, "docker: containers of dead runs") == ["1", "0"]
        assert "a container uses it" in printed
        client.api.remove_container(made[1])
        printed = place.endless("clean", "--all", "--set", f"address={daemon.address}").stdout
        assert {volume.name for volume in client.volumes.list()} == {"theirs"}, printed
        assert {tag for image in client.images.list() for tag in image.tags} == {"theirs:d", "endless-task:e"}
    finally:
        engine.close()


def _files(number: int) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("file")
        entry.size = 1000 + number
        tar.addfile(entry, io.BytesIO(b"x" * entry.size))
    return archive.getvalue()
