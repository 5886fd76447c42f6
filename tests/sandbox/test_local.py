"""Sandboxes of this machine's own programs: what they hide, what they keep, and that they leave nothing behind."""

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.abandon import abandoned
from support.processes import new_mark, processes_with, until

from runner.domain.errors import EngineError, MissingRequirement
from runner.domain.task import Environment
from runner.sandbox.base import BuildFailure, Image, Role, Sandbox
from runner.sandbox.local import LocalBackend
from runner.sandbox.local.limits import remedy
from runner.schema import Sandbox as Settings

pytestmark = [pytest.mark.local, pytest.mark.live]


@pytest.fixture
def sandbox(local_backend: LocalBackend, local_image: Image) -> Iterator[Sandbox]:
    with local_backend.start(local_image) as opened:
        yield opened


def built(backend: LocalBackend, setup: str = "", start: str = "") -> Image:
    image = backend.build(Environment(setup=setup, start=start), timeout=60)
    assert isinstance(image, Image), image
    return image


def said(sandbox: Sandbox, command: str, timeout: float = 20) -> str:
    return sandbox.run(command, timeout=timeout).output.decode("utf-8", "replace").strip()


def as_root(sandbox: Sandbox, script: str) -> str:
    result = sandbox.exec(["/bin/sh", "-c", script], role=Role.ROOT, timeout=20)
    assert result.exit_code == 0, result
    return result.output.decode("utf-8", "replace").strip()


def one_user(backend: LocalBackend) -> bool:
    return backend._identity.single


# What the agent is, and what it sees


def test_the_probe_names_what_is_not_enforced(local_backend: LocalBackend) -> None:
    probe = local_backend.probe()
    assert probe.ok
    assert "namespaces" in probe.detail
    assert any("memory" in limit for limit in probe.limits)
    assert any("one user" in limit for limit in probe.limits) == one_user(local_backend)


def test_the_remedy_names_two_ways() -> None:
    assert "user namespaces" in remedy()
    assert "sandbox=docker" in remedy()


def test_no_descriptor_of_ours_reaches_the_agent(sandbox: Sandbox) -> None:
    assert said(sandbox, "ls /proc/self/fd") == "0\n1\n2\n3"
    targets = said(sandbox, "readlink /proc/$$/fd/*; readlink /proc/1/fd/*").split()
    assert {target.partition(":")[0] for target in targets} <= {"/dev/null", "pipe"}


def test_a_program_sees_only_the_sandboxs_processes(sandbox: Sandbox) -> None:
    assert said(sandbox, "cat /proc/1/cmdline | tr '\\0' ' '") == "sleep infinity"
    assert len(said(sandbox, "ls -d /proc/[0-9]*").split()) <= 4
    assert len(as_root(sandbox, "ls -d /proc/[0-9]*").split()) <= 4


def test_nothing_of_the_users_own_is_visible(
    local_backend: LocalBackend, local_image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secrets.token_hex(8)
    (tmp_path / "secret").write_text(secret)
    monkeypatch.setenv("SECRET_OF_OURS", secret)
    with local_backend.start(local_image) as sandbox:
        for folder in (tmp_path, Path.home(), Path("/work"), Path("/sys/kernel")):
            assert sandbox.run(f"ls {folder}/..?* {folder}/[!.]*", timeout=10).exit_code != 0, folder
        assert said(sandbox, "ls -A /tmp /var/tmp /opt /srv /mnt /media") == (
            "/media:\n\n/mnt:\n\n/opt:\nendless-grader\n\n/srv:\n\n/tmp:\n\n/var/tmp:"
        )
        hunted = f"env; cat /proc/*/environ; grep -rs {secret} /tmp /run /var /home /etc/passwd /proc/*/cmdline"
        assert secret not in said(sandbox, hunted).replace(f"grep\0-rs\0{secret}", "")
        assert secret not in as_root(sandbox, "env; cat /proc/*/environ; true")


def test_system_folders_cannot_be_changed_by_the_agent(sandbox: Sandbox) -> None:
    for path in ("/opt/endless-grader/site/pytest/__init__.py", "/usr/bin/env"):
        assert sandbox.run(f"echo x >> {path}", timeout=10).exit_code != 0
    as_root(sandbox, "! touch /opt/endless-grader/x")


def test_other_users_of_this_machine_are_not_named(sandbox: Sandbox) -> None:
    ids = [int(line.split(":")[2]) for line in said(sandbox, "cat /etc/passwd").splitlines()]
    assert [number for number in ids if number >= 1000] in ([1000], [65534, 1000])
    assert said(sandbox, "hostname; cat /etc/hostname") == "sandbox\nsandbox"


# Builds


def test_what_a_setup_script_does_is_there_for_the_agent(local_backend: LocalBackend) -> None:
    setup = """set -e
        echo hello >/home/user/greeting; mkdir -p /home/user/deep/er; touch /home/user/deep/er/file
        printf '#!/bin/sh\\necho tool\\n' >/usr/local/bin/tool; chmod 755 /usr/local/bin/tool
        echo '# ours' >>/etc/bash.bashrc; mkdir -p /srv/data /app; echo 1 >/srv/data/one; ln -s /srv/data /app/link
        ln /srv/data/one /srv/data/hard; mkfifo /srv/data/fifo; touch -d '2001-02-03 04:05:06Z' /srv/data/one
        useradd --no-create-home builder"""
    with local_backend.start(built(local_backend, setup)) as sandbox:
        assert (
            said(sandbox, "cat greeting; tool; tail -n1 /etc/bash.bashrc; cat /app/link/one")
            == "hello\ntool\n# ours\n1"
        )
        assert said(sandbox, "stat -c '%U %Y %h' greeting deep/er/file /srv/data/one /srv/data/hard").splitlines()[
            2:
        ] in (
            ["root 981173106 2", "root 981173106 2"],
            ["user 981173106 2", "user 981173106 2"],
        )
        assert said(sandbox, "stat -c %U greeting deep deep/er/file") == "user\nuser\nuser"
        assert said(sandbox, "stat -c %F /srv/data/fifo; id -u builder") == "fifo\n1001"
        said(sandbox, "echo more >>greeting")
    with local_backend.start(built(local_backend, setup)) as sandbox:
        assert said(sandbox, "cat greeting") == "hello"


def test_deletions_and_replaced_folders_are_kept(local_backend: LocalBackend) -> None:
    setup = (
        "set -e; rm /usr/bin/env; rm -rf /etc/profile.d; mkdir /etc/profile.d; touch /etc/profile.d/only; rmdir /mnt"
    )
    with local_backend.start(built(local_backend, setup)) as sandbox:
        assert said(sandbox, "ls /usr/bin/env; ls /etc/profile.d") == (
            "ls: cannot access '/usr/bin/env': No such file or directory\nonly"
        )
        assert said(sandbox, "ls /usr/bin | wc -l") != "0"


def test_untouched_things_are_not_kept(local_backend: LocalBackend) -> None:
    small = Path(built(local_backend, "touch /etc/one-file").reference).stat().st_size
    assert small < 50_000


def test_owners_and_special_modes_are_kept(local_backend: LocalBackend) -> None:
    if one_user(local_backend):
        pytest.skip("this user has no other users to give files to")
    setup = (
        "set -e; touch /srv/a /home/user/b /home/user/c; chown 33:44 /srv/a; chown 12:0 /home/user/b; chmod 4750 /srv/a"
    )
    with local_backend.start(built(local_backend, setup)) as sandbox:
        assert said(sandbox, "stat -c '%u:%g %a' /srv/a b c") == "33:44 4750\n12:0 644\n1000:1000 644"


def test_changing_owners_does_not_fail_where_there_is_one_user(local_backend: LocalBackend) -> None:
    setup = "set -e; touch /home/user/a; chown -R user:user /home/user; chgrp user /home/user/a"
    with local_backend.start(built(local_backend, setup)) as sandbox:
        assert said(sandbox, "stat -c %U a; echo x >a; cat a") == "user\nx"


def test_a_build_has_no_network(local_backend: LocalBackend) -> None:
    failed = local_backend.build(Environment(setup="ls /proc/sys/net/ipv4/conf; exit 1"), timeout=60)
    assert isinstance(failed, BuildFailure)
    assert failed.log.split()[:3] == ["all", "default", "lo"]


def test_an_image_is_built_once_and_forgotten_on_request(local_backend: LocalBackend) -> None:
    image = built(local_backend, f"echo {secrets.token_hex(4)} >/srv/x")
    written = Path(image.reference).stat().st_ino
    assert Path(built(local_backend, image.environment.setup).reference).stat().st_ino == written
    local_backend.remove_image(image)
    local_backend.remove_image(image)
    with pytest.raises(EngineError, match="is gone"), local_backend.start(image):
        pass


def test_an_imported_docker_context_needs_docker(local_backend: LocalBackend, tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match="sandbox=docker"):
        local_backend.build(Environment(context=tmp_path), timeout=5)


# Services


# Ending the agent's processes


def test_a_full_disk_is_the_sandboxs_own(local_backend: LocalBackend, local_image: Image) -> None:
    with local_backend.start(local_image) as full, local_backend.start(local_image) as other:
        done = full.run("head -c 3G /dev/zero >big", timeout=60)
        assert done.exit_code != 0
        for number in range(3):
            full.run(f"head -c 1G /dev/zero >big{number}", timeout=60)
        assert "No space left" in said(full, "echo x >/tmp/more")
        assert said(other, "echo x >/tmp/more; cat /tmp/more") == "x"
        assert as_root(full, "echo x >/run/endless/x; cat /run/endless/x") == "x"


# Programs beside the shell


def test_a_program_as_root_does_not_wait_for_what_it_leaves_behind(sandbox: Sandbox) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    result = sandbox.exec(["/bin/sh", "-c", f"sleep {mark} & echo done"], role=Role.ROOT, timeout=20)
    assert (result.output, result.timed_out) == (b"done\n", False)
    assert result.seconds < 10
    assert not processes_with(mark)


# Nothing is left behind


def test_a_killed_owner_leaves_no_process_and_no_mount(local_ok: str, session_cache: Path) -> None:
    mark, mounts = new_mark(), Path("/proc/self/mountinfo").read_text()
    with abandoned(Settings(backend="local"), session_cache, "abandoned", mark) as owner:
        assert until(lambda: len(processes_with(mark)) >= 3)
    assert until(lambda: not processes_with(mark))
    assert until(lambda: not [pid for pid in processes_with("local.inside.nursery") if _parent(pid) == owner.pid])
    assert Path("/proc/self/mountinfo").read_text() == mounts


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def test_the_process_that_starts_sandboxes_may_die(local_ok: str, session_cache: Path) -> None:
    backend = LocalBackend(Settings(), session_cache, "tests")
    try:
        image = built(backend)
        with backend.start(image) as sandbox:
            nursery = backend._nursery._process
            assert nursery is not None
            nursery.send_signal(signal.SIGKILL)
            nursery.wait()
            assert said(sandbox, "echo unharmed") == "unharmed"
            with backend.start(image) as another:
                assert said(another, "echo new") == "new"
    finally:
        backend.close()


def test_reaping_removes_layers_of_dead_writers_only(local_backend: LocalBackend, session_cache: Path) -> None:
    folder = session_cache / "local"
    folder.mkdir(exist_ok=True)
    dead, alive = folder / "aa.4194304.bb.partial", folder / f"aa.{os.getpid()}.bb.partial"
    dead.touch()
    alive.touch()
    assert local_backend.reap() == 0
    assert (dead.exists(), alive.exists()) == (False, True)
    alive.unlink()


def test_a_cache_that_cannot_be_written_is_trouble(local_ok: str, tmp_path: Path, session_cache: Path) -> None:
    backend = LocalBackend(Settings(), session_cache, "tests")
    backend._layers = tmp_path / "file" / "below"
    (tmp_path / "file").touch()
    try:
        with pytest.raises(EngineError, match="could not be kept"):
            backend.build(Environment(setup="true"), timeout=20)
    finally:
        backend.close()


# A root file system of one's own


@pytest.fixture(scope="session")
def other_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few programs and their libraries, and accounts of their own."""
    root = tmp_path_factory.mktemp("root")
    programs = [
        f"/bin/{name}" for name in ("bash", "sh", "cat", "id", "ls", "rm", "sleep", "mkdir", "true", "stat", "ln")
    ]
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    libraries = {word for word in listing.split() if word.startswith("/") and not word.endswith(":")}
    for path in (*programs, *libraries):
        target = root / path[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(path).read_bytes())
        target.chmod(0o755)
    (root / "etc").mkdir()
    root.chmod(0o755)
    (root / "etc/os-release").write_text("NAME=Other\n")
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1::/:/bin/false\nme:x:1000:1000::/:/bin/sh\n"
    )
    (root / "data/deep").mkdir(parents=True)
    (root / "data/deep/file").write_text("from below\n")
    return root


def test_a_root_file_system_of_ones_own(local_ok: str, session_cache: Path, other_root: Path) -> None:
    backend = LocalBackend(replace(Settings(), root=str(other_root)), session_cache, "tests")
    before = sorted(path.name for path in other_root.rglob("*"))
    setup = "set -e; echo new >/data/deep/other; rm /etc/os-release; echo x >/home/user/x; mkdir /top"
    try:
        with backend.start(built(backend, setup)) as sandbox:
            assert said(sandbox, "cat /data/deep/file /data/deep/other; id -un; cat x") == "from below\nnew\nuser\nx"
            assert (
                said(sandbox, "ls /usr/bin/python3 /etc/os-release 2>&1 | cat; stat -c %F /top").count("No such file")
                == 2
            )
            assert "daemon" in said(sandbox, "cat /etc/passwd")
            said(sandbox, "echo mine >/home/user/y")
    finally:
        backend.close()
    assert sorted(path.name for path in other_root.rglob("*")) == before
