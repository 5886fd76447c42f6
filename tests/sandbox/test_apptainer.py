"""Sandboxes in Apptainer containers: what differs from the local backend, whose sandboxes they are inside."""

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support.abandon import abandoned, argv, environment
from support.processes import new_mark, processes_with, until

from runner.domain.errors import EngineError, MissingRequirement
from runner.domain.task import Environment
from runner.grading.verify import verify
from runner.sandbox.apptainer import ApptainerBackend
from runner.sandbox.apptainer.base import origin
from runner.sandbox.apptainer.machine import REMOVE, output_inside, remove
from runner.sandbox.base import Image, Role, Sandbox
from runner.schema import Sandbox as Settings

pytestmark = [pytest.mark.apptainer, pytest.mark.live]

PASSES = "def test_it():\n    assert open('/home/user/answer').read() == '42\\n'\n"


@pytest.fixture
def sandbox(apptainer_backend: ApptainerBackend, apptainer_image: Image) -> Iterator[Sandbox]:
    with apptainer_backend.start(apptainer_image) as opened:
        yield opened


def built(backend: ApptainerBackend, setup: str = "true", start: str = "") -> Image:
    image = backend.build(Environment(setup=setup, start=start), timeout=60)
    assert isinstance(image, Image), image
    return image


def said(sandbox: Sandbox, command: str) -> str:
    return sandbox.run(command, timeout=20).output.decode("utf-8", "replace").strip()


# The base image


@pytest.mark.parametrize(
    ("base_image", "expected"),
    [
        ("ubuntu:22.04", ("docker", "ubuntu:22.04")),
        ("ghcr.io/someone/image@sha256:00", ("docker", "ghcr.io/someone/image@sha256:00")),
        ("docker://ubuntu:22.04", ("docker", "ubuntu:22.04")),
        ("oras://host/image:1", ("oras", "host/image:1")),
        ("/data/base.sif", ("localimage", "/data/base.sif")),
        ("/data/unpacked", ("localimage", "/data/unpacked")),
        ("/data/saved.tar", ("docker-archive", "/data/saved.tar")),
        ("docker-archive:///data/saved.tar", ("docker-archive", "/data/saved.tar")),
    ],
)
def test_a_base_image_may_be_in_a_registry_or_on_disk(base_image: str, expected: tuple[str, str]) -> None:
    assert origin(base_image) == expected


def test_the_base_image_is_built_once_and_holds_nothing_of_apptainers(
    apptainer_settings: Settings, apptainer_cache: Path, sandbox: Sandbox
) -> None:
    folder = apptainer_cache / "apptainer" / "base"
    bases = [path for path in folder.iterdir() if path.is_dir()]
    another = ApptainerBackend(apptainer_settings, apptainer_cache, "another")
    try:
        built(another, "echo another")
    finally:
        another.close()
    assert [path for path in folder.iterdir() if path.is_dir()] == bases
    assert "singularity" not in said(sandbox, "ls -A /")
    assert said(sandbox, "ls /mnt /srv /media /opt") == "/media:\n\n/mnt:\n\n/opt:\nendless-grader\n\n/srv:"


def test_a_base_image_that_cannot_be_used_is_trouble(apptainer_cache: Path, apptainer_image: Image) -> None:
    folder = apptainer_cache / "apptainer" / "base"
    (broken := apptainer_cache / "broken.sif").write_bytes(b"no image")
    backend = ApptainerBackend(Settings(base_image=str(broken)), apptainer_cache, "tests")
    try:
        with pytest.raises(EngineError, match=r"could not build the base image from localimage://.*broken.sif"):
            backend.build(Environment(setup="true"), timeout=20)
    finally:
        backend.close()
    assert not list(folder.glob("*.partial"))


def test_a_base_image_may_be_an_unpacked_folder(apptainer_cache: Path, apptainer_image: Image) -> None:
    unpacked = next(path for path in (apptainer_cache / "apptainer" / "base").iterdir() if path.is_dir())
    backend = ApptainerBackend(Settings(base_image=str(unpacked)), apptainer_cache, "tests")
    try:
        with backend.start(built(backend)) as sandbox:
            assert said(sandbox, "id -un; command -v jq") == "user\n/usr/bin/jq"
    finally:
        backend.close()


def test_the_build_of_a_base_ends_with_a_killed_owner(
    apptainer_settings: Settings, apptainer_cache: Path, apptainer_image: Image
) -> None:
    if not Path(apptainer_settings.base_image).exists():
        pytest.skip("the base image comes from a registry here")
    (link := apptainer_cache / "link.tar").symlink_to(apptainer_settings.base_image)
    command = argv(replace(apptainer_settings, base_image=str(link)), apptainer_cache, "abandoned", "none")
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as owner:
        assert until(lambda: bool(processes_with(f"from={link}")))
        owner.kill()
    assert until(lambda: not processes_with(f"from={link}"))
    backend = ApptainerBackend(apptainer_settings, apptainer_cache, "tests")
    assert backend.reap() == 0
    assert not list((apptainer_cache / "apptainer" / "base").glob("*.partial"))


def test_half_made_bases_of_dead_processes_are_reaped(
    apptainer_backend: ApptainerBackend, apptainer_cache: Path
) -> None:
    folder = apptainer_cache / "apptainer" / "base"
    dead, alive = folder / "aa.4194304.bb.partial", folder / f"aa.{os.getpid()}.bb.partial"
    for path in (dead, alive):
        (path / "image").mkdir(parents=True)
    assert apptainer_backend.reap() == 0
    assert (dead.exists(), alive.exists()) == (False, True)
    shutil.rmtree(alive)


def test_files_of_the_containers_users_can_be_removed_by_whom_they_do_not_belong_to(apptainer_cache: Path) -> None:
    folder = Path(tempfile.mkdtemp(dir=apptainer_cache))
    folder.chmod(0o777)
    output_inside(
        "mkdir -p /mnt/.a/b && touch /mnt/.a/b/c && chmod 700 /mnt/.a && chown -R 1000 /mnt/.a", writable=folder
    )
    assert (folder / ".a" / "b" / "c").exists()
    output_inside(REMOVE, writable=folder)
    assert list(folder.iterdir()) == []
    remove(folder)
    assert not folder.exists()


# Where it works and what it says


def test_the_probe_names_what_is_not_enforced(apptainer_backend: ApptainerBackend) -> None:
    probe = apptainer_backend.probe()
    assert probe.ok
    assert "Apptainer 1." in probe.detail
    assert any("memory" in limit for limit in probe.limits)


def test_without_the_program_the_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probe = ApptainerBackend(Settings(), tmp_path, "tests").probe()
    assert not probe.ok
    assert "not installed" in probe.detail
    assert "sandbox=docker" in probe.remedy


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo apptainer version 1.0.3", "too old"), ("echo hello", "does not say its version"), ("exit 1", "cannot")],
)
def test_a_program_that_will_not_do_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, why: str
) -> None:
    (tmp_path / "apptainer").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    probe = ApptainerBackend(Settings(), tmp_path, "tests").probe()
    assert not probe.ok
    assert why in probe.detail


def test_a_dockerfile_needs_docker(apptainer_backend: ApptainerBackend, tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match="sandbox=docker"):
        apptainer_backend.build(Environment(context=tmp_path), timeout=20)


# Builds


def test_what_a_setup_script_does_is_there_with_its_owners(apptainer_backend: ApptainerBackend) -> None:
    if apptainer_backend._identity.single:
        pytest.skip("this user has no other users to give files to")
    setup = """set -e
        echo hello >/home/user/greeting
        printf '#!/bin/sh\\necho tool\\n' >/usr/local/bin/tool; chmod 755 /usr/local/bin/tool
        rm /usr/bin/env; rm -rf /etc/profile.d; mkdir /etc/profile.d; touch /etc/profile.d/only; rmdir /boot
        touch /srv/a; chown 33:44 /srv/a; chmod 4750 /srv/a; useradd --no-create-home builder"""
    with apptainer_backend.start(built(apptainer_backend, setup)) as sandbox:
        assert said(sandbox, "cat greeting; tool; stat -c %U greeting; id -u builder") == "hello\ntool\nuser\n1001"
        assert said(sandbox, "ls /usr/bin/env /boot 2>&1 | grep -c 'No such'; ls /etc/profile.d") == "2\nonly"
        assert said(sandbox, "stat -c '%u:%g %a' /srv/a") == "33:44 4750"


@pytest.mark.parametrize(("network", "there"), [("none", False), (None, True)])
def test_builds_have_the_network_that_the_recipe_says(
    apptainer_settings: Settings, apptainer_cache: Path, network: str | None, there: bool
) -> None:
    backend = ApptainerBackend(replace(apptainer_settings, build_network=network), apptainer_cache, "tests")
    try:
        with backend.start(built(backend, "ls /proc/sys/net/ipv4/conf >/srv/interfaces")) as sandbox:
            assert (said(sandbox, "cat /srv/interfaces") != "all\ndefault\nlo") == there
            assert said(sandbox, "ls /proc/sys/net/ipv4/conf") == "all\ndefault\nlo"
    finally:
        backend.close()


# What the agent is


def test_the_agents_user_is_not_the_graders_outside_either(
    apptainer_backend: ApptainerBackend, sandbox: Sandbox
) -> None:
    if apptainer_backend._identity.single:
        pytest.skip("this user has no other users")
    mark = new_mark()
    said(sandbox, f"sleep {mark} &")
    assert until(lambda: bool(processes_with(mark)))
    owners = {Path("/proc", pid).stat().st_uid for pid in processes_with(mark)}
    graders = {Path("/proc", pid).stat().st_uid for pid in processes_with("local.inside.nursery")}
    assert owners.isdisjoint(graders)


def test_nothing_of_this_machine_is_visible(
    apptainer_backend: ApptainerBackend, apptainer_image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secret = secrets.token_hex(8)
    (tmp_path / "secret").write_text(secret)
    monkeypatch.setenv("SECRET_OF_OURS", secret)
    with apptainer_backend.start(apptainer_image) as sandbox:
        for folder in (tmp_path, Path.cwd(), Path("/sys/kernel"), Path("/root")):
            assert sandbox.run(f"ls {folder}/..?* {folder}/[!.]*", timeout=10).exit_code != 0, folder
        for found in (said(sandbox, "env; cat /proc/*/environ"), _as_root(sandbox, "env; cat /proc/*/environ; true")):
            assert secret not in found
        assert len(said(sandbox, "ls -d /proc/[0-9]*").split()) <= 4


def _as_root(sandbox: Sandbox, script: str) -> str:
    result = sandbox.exec(["/bin/sh", "-c", script], role=Role.ROOT, timeout=20)
    assert result.exit_code == 0, result
    return result.output.decode("utf-8", "replace")


# Nothing is left behind


def test_many_sandboxes_start_at_once(apptainer_settings: Settings, apptainer_cache: Path) -> None:
    backend = ApptainerBackend(replace(apptainer_settings, concurrency=32), apptainer_cache, "tests")
    before = _containers(apptainer_cache)
    image = built(backend)

    def one(number: int) -> str:
        with backend.start(image) as sandbox:
            said(sandbox, f"echo {number} >mine")
            return said(sandbox, "cat mine; cat /tmp/* 2>/dev/null")

    try:
        with ThreadPoolExecutor(32) as pool:
            assert list(pool.map(one, range(48))) == [str(number) for number in range(48)]
    finally:
        backend.close()
    assert until(lambda: _containers(apptainer_cache) <= before)


def test_a_killed_owner_leaves_no_process_no_mount_and_no_file(
    apptainer_settings: Settings, apptainer_cache: Path, apptainer_image: Image
) -> None:
    mark, before = new_mark(), _traces(apptainer_cache)
    with abandoned(apptainer_settings, apptainer_cache, "abandoned", mark):
        assert until(lambda: len(processes_with(mark)) >= 3)
    assert until(lambda: not processes_with(mark))
    assert until(lambda: _traces(apptainer_cache) == before)


def _traces(cache: Path) -> tuple[str, list[Path], set[str]]:
    files = [path for path in (cache / "apptainer").glob("*") if path.suffix != ".tar"]
    return Path("/proc/self/mountinfo").read_text(), files, _containers(cache)


def _containers(cache: Path) -> set[str]:
    """The processes of Apptainer's own that show a folder of ours."""
    return {pid for pid in processes_with(f"{cache}/apptainer/code") if _alive(pid)}


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_container_that_is_killed_is_trouble_and_the_next_sandbox_works(
    apptainer_settings: Settings, apptainer_cache: Path
) -> None:
    backend = ApptainerBackend(apptainer_settings, apptainer_cache, "tests")
    try:
        image = built(backend)
        with backend.start(image) as sandbox:
            assert said(sandbox, "echo alive") == "alive"
            nursery = backend._nursery._process
            assert nursery is not None
            os.killpg(nursery.pid, signal.SIGKILL)
            nursery.wait()
            assert until(lambda: not _works(sandbox))
        with backend.start(image) as another:
            assert said(another, "echo new") == "new"
    finally:
        backend.close()


def _works(sandbox: Sandbox) -> bool:
    try:
        return said(sandbox, "true") == ""
    except EngineError:
        return False


# One user only, as where newuidmap is missing


@pytest.fixture
def one_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, apptainer_ok: str) -> None:
    """An ``apptainer`` that does as if this user had no range in /etc/subuid."""
    script = (
        '#!/bin/bash\nfor word; do words+=("$word"); [[ $word == --fakeroot ]] && words+=(--ignore-subuid); done\n'
        f'exec {shutil.which("apptainer")} "${{words[@]}}"\n'
    )
    (tmp_path / "apptainer").write_text(script)
    (tmp_path / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_with_one_user_only_it_works_and_says_what_is_missing(
    one_user: None, apptainer_settings: Settings, apptainer_cache: Path, apptainer_image: Image
) -> None:
    backend = ApptainerBackend(apptainer_settings, apptainer_cache, "tests")
    try:
        probe = backend.probe()
        assert any("one user" in limit for limit in probe.limits)
        with backend.start(built(backend, "echo 42 >/home/user/answer; chown user /home/user/answer")) as sandbox:
            assert said(sandbox, "id -u; cat answer; grep CapEff /proc/self/status") == (
                "1000\n42\nCapEff:\t0000000000000000"
            )
            assert verify(sandbox, backend.grader, PASSES, timeout=30).reason == "passed"
    finally:
        backend.close()
