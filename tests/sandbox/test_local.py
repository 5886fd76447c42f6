"""Sandboxes of this machine's own programs: what they hide, what they keep, and that they leave nothing behind."""

import hashlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support import abandon_local

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


def failure(backend: LocalBackend, setup: str = "", start: str = "", timeout: float = 60) -> BuildFailure:
    image = backend.build(Environment(setup=setup, start=start), timeout=timeout)
    assert isinstance(image, BuildFailure), image
    return image


def said(sandbox: Sandbox, command: str, timeout: float = 20) -> str:
    return sandbox.run(command, timeout=timeout).output.decode("utf-8", "replace").strip()


def as_root(sandbox: Sandbox, script: str) -> str:
    result = sandbox.exec(["/bin/sh", "-c", script], role=Role.ROOT, timeout=20)
    assert result.exit_code == 0, result
    return result.output.decode("utf-8", "replace").strip()


def one_user(backend: LocalBackend) -> bool:
    return backend._identity.single


def processes_with(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in process.read_bytes():
                found.append(process.parent.name)
        except OSError:
            continue
    return found


def until(condition: object, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


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


def test_the_agent_is_an_ordinary_user_without_rights(sandbox: Sandbox) -> None:
    assert said(sandbox, "id -un; id -u; id -g; pwd") == "user\n1000\n1000\n/home/user"
    status = said(sandbox, "cat /proc/self/status")
    for line in ("CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd"):
        assert f"{line}:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert sandbox.run("unshare -Ur true", timeout=10).exit_code != 0
    assert sandbox.run("mount -t tmpfs none /tmp", timeout=10).exit_code != 0


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


def test_there_is_no_network_but_itself(sandbox: Sandbox) -> None:
    assert said(sandbox, "ls /proc/sys/net/ipv4/conf") == "all\ndefault\nlo"
    serve = "python3 -m http.server 8123 >/dev/null 2>&1 &"
    get = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:8123\").status)'"
    said(sandbox, serve)
    assert until(lambda: said(sandbox, get).endswith("200"))


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


def test_a_failing_setup_script_is_its_own_fault(local_backend: LocalBackend) -> None:
    failed = failure(local_backend, "echo before; echo oops >&2; exit 7")
    assert not failed.timed_out
    assert failed.log == "before\noops\n(exit code 7)"


def test_a_setup_script_that_hangs_is_stopped(local_backend: LocalBackend) -> None:
    mark = f"7{secrets.randbelow(10**9)}"
    failed = failure(local_backend, f"echo begun; setsid sleep {mark} & sleep {mark}", timeout=1)
    assert (failed.timed_out, failed.log) == (True, "begun\n")
    assert until(lambda: not processes_with(mark))


def test_a_long_log_keeps_its_end(local_backend: LocalBackend) -> None:
    failed = failure(local_backend, "seq 200000; false")
    assert failed.log.endswith("200000\n(exit code 1)")
    assert len(failed.log) < 25_000


def test_a_build_has_no_network(local_backend: LocalBackend) -> None:
    failed = failure(local_backend, "ls /proc/sys/net/ipv4/conf; exit 1")
    assert failed.log.split()[:3] == ["all", "default", "lo"]


def test_build_variables_are_handed_on_but_not_kept(
    local_ok: str, session_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_PROXY", "http://proxy")
    backend = LocalBackend(Settings(build_env=["BUILD_PROXY", "NOT_SET"]), session_cache, "tests")
    try:
        with backend.start(built(backend, "echo $BUILD_PROXY >/srv/seen")) as sandbox:
            assert said(sandbox, "cat /srv/seen; echo [$BUILD_PROXY]") == "http://proxy\n[]"
    finally:
        backend.close()


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


def test_a_start_script_runs_as_the_agent_before_its_shell(local_backend: LocalBackend) -> None:
    start = "id -un >who; python3 -m http.server 8124 --directory /home/user >/dev/null 2>&1 &"
    get = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:8124/who\").read().decode())'"
    with local_backend.start(built(local_backend, "", start)) as sandbox:
        assert until(lambda: said(sandbox, get).strip() == "user")
        sandbox.quiesce()
        assert "refused" in said(sandbox, get)


def test_a_failing_start_script_is_a_build_failure_each_time(local_backend: LocalBackend) -> None:
    for _ in range(2):
        assert failure(local_backend, "", "echo sorry; exit 3").log == "sorry\nstart.sh ended with exit code 3"


# Ending the agent's processes


def test_quiescing_ends_every_process_and_keeps_the_files(sandbox: Sandbox) -> None:
    mark = f"8{secrets.randbelow(10**9)}"
    said(sandbox, f"echo kept >f; (trap '' TERM HUP; exec sleep {mark}) & setsid sleep {mark} & disown -a")
    assert until(lambda: len(processes_with(mark)) >= 2)
    sandbox.quiesce()
    assert not processes_with(mark)
    assert as_root(sandbox, "cat /home/user/f") == "kept"
    sandbox.quiesce()
    assert said(sandbox, "cat f; pwd") == "kept\n/home/user"


def test_a_fork_bomb_is_contained(sandbox: Sandbox) -> None:
    sandbox.run("bomb() { bomb | bomb & }; bomb", timeout=2)
    began = time.monotonic()
    assert "still there" in said(sandbox, "echo still there", timeout=20).splitlines()
    sandbox.quiesce()
    assert as_root(sandbox, "echo fine") == "fine"
    assert time.monotonic() - began < 30


def test_a_full_disk_is_the_sandboxs_own(local_backend: LocalBackend, local_image: Image) -> None:
    with local_backend.start(local_image) as full, local_backend.start(local_image) as other:
        done = full.run("head -c 3G /dev/zero >big", timeout=60)
        assert done.exit_code != 0
        for number in range(3):
            full.run(f"head -c 1G /dev/zero >big{number}", timeout=60)
        assert "No space left" in said(full, "echo x >/tmp/more")
        assert said(other, "echo x >/tmp/more; cat /tmp/more") == "x"
        assert as_root(full, "echo x >/run/endless/x; cat /run/endless/x") == "x"


def test_one_process_cannot_take_all_memory(sandbox: Sandbox) -> None:
    assert "MemoryError" in said(sandbox, "python3 -c 'x = bytearray(3 << 30)'")


# Programs beside the shell


def test_a_program_gets_its_input_and_an_empty_environment(sandbox: Sandbox) -> None:
    data = secrets.token_bytes(300_000)
    result = sandbox.exec(["/usr/bin/sha256sum"], role=Role.ROOT, timeout=20, stdin=data)
    assert result.output.split()[0].decode() == hashlib.sha256(data).hexdigest()
    assert as_root(sandbox, "env | cut -d= -f1 | sort").split() in (["PATH", "PWD"], ["OLDPWD", "PATH", "PWD"])
    result = sandbox.exec(["pwd"], role=Role.AGENT, timeout=20, cwd="/usr/lib")
    assert (result.output, result.exit_code) == (b"/usr/lib\n", 0)
    assert sandbox.exec(["id", "-u"], role=Role.AGENT, timeout=20).output == b"1000\n"
    assert sandbox.exec(["/bin/sh", "-c", "kill -9 $$"], role=Role.ROOT, timeout=20).exit_code == 137


@pytest.mark.parametrize("role", list(Role))
def test_a_program_that_overruns_ends_with_all_it_started(sandbox: Sandbox, role: Role) -> None:
    mark = f"9{secrets.randbelow(10**9)}"
    script = f"setsid sleep {mark} & echo begun; sleep {mark}"
    result = sandbox.exec(["/bin/bash", "-c", script], role=role, timeout=1)
    assert (result.timed_out, result.exit_code, result.output) == (True, None, b"begun\n")
    assert not processes_with(mark)
    flood = sandbox.exec(["yes"], role=role, timeout=20)
    assert (flood.truncated, flood.exit_code, len(flood.output)) == (True, None, 200_000)
    assert said(sandbox, "echo on we go") == "on we go"


def test_a_program_as_root_does_not_wait_for_what_it_leaves_behind(sandbox: Sandbox) -> None:
    mark = f"6{secrets.randbelow(10**9)}"
    result = sandbox.exec(["/bin/sh", "-c", f"sleep {mark} & echo done"], role=Role.ROOT, timeout=20)
    assert (result.output, result.timed_out) == (b"done\n", False)
    assert result.seconds < 10
    assert not processes_with(mark)


def test_a_program_that_does_not_exist_is_trouble(sandbox: Sandbox) -> None:
    for role in Role:
        with pytest.raises(EngineError, match="/no/such"):
            sandbox.exec(["/no/such"], role=role, timeout=20)
    assert said(sandbox, "echo alive") == "alive"


# Nothing is left behind


def test_a_killed_owner_leaves_no_process_and_no_mount(local_ok: str, session_cache: Path) -> None:
    mark = f"5{secrets.randbelow(10**9)}"
    command = [sys.executable, str(Path(abandon_local.__file__)), str(session_cache), mark]
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    mounts = Path("/proc/self/mountinfo").read_text()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        assert until(lambda: len(processes_with(mark)) >= 3)
        owner.kill()
    assert until(lambda: not processes_with(mark))
    assert until(lambda: not [pid for pid in processes_with("local.inside.nursery") if _parent(pid) == owner.pid])
    assert Path("/proc/self/mountinfo").read_text() == mounts


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return -1


def test_closing_the_backend_ends_its_sandboxes(local_ok: str, session_cache: Path) -> None:
    mark = f"4{secrets.randbelow(10**9)}"
    backend = LocalBackend(Settings(), session_cache, "tests")
    with backend.start(built(backend)) as sandbox:
        said(sandbox, f"sleep {mark} &")
        assert until(lambda: bool(processes_with(mark)))
        closer = threading.Thread(target=backend.close)
        closer.start()
        with pytest.raises(EngineError):
            sandbox.run("sleep 20", timeout=30)
        closer.join()
        assert until(lambda: not processes_with(mark))
    backend.close()


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


def test_many_sandboxes_start_at_once(local_ok: str, session_cache: Path) -> None:
    backend = LocalBackend(Settings(concurrency=16), session_cache, "tests")
    image = built(backend)

    def one(number: int) -> str:
        with backend.start(image) as sandbox:
            said(sandbox, f"echo {number} >mine")
            return said(sandbox, "cat mine; cat /tmp/* 2>/dev/null")

    try:
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(one, range(32))) == [str(number) for number in range(32)]
    finally:
        backend.close()
    assert len(list(Path("/proc/self/fd").iterdir())) < 200


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
