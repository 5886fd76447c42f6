"""What every backend promises, tested on each: one behaviour, three ways to it. What only one of them does has a test
file of its own."""

import hashlib
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from support.abandon import abandoned
from support.engines import Ready
from support.processes import new_mark, processes_with, until

from runner.domain.errors import EngineError
from runner.domain.task import Environment
from runner.sandbox.base import Backend, BuildFailure, Image, Role, Sandbox
from runner.sandbox.registry import open_backend
from runner.sandbox.runtime import python_argv
from runner.schema import Sandbox as Settings

pytestmark = pytest.mark.live


@pytest.fixture
def settings(ready: Ready, request: pytest.FixtureRequest) -> Settings:
    """A recipe's ``sandbox`` section for the backend."""
    if ready.name == "local":
        return Settings(backend="local")
    found: Settings = request.getfixturevalue(f"{ready.name}_settings")
    return found


@pytest.fixture
def cache(ready: Ready, session_cache: Path, request: pytest.FixtureRequest) -> Path:
    """The folder that its backend may use."""
    if ready.name == "apptainer":
        found: Path = request.getfixturevalue("apptainer_cache")
        return found
    return session_cache


@contextmanager
def another(settings: Settings, cache: Path, label: str = "tests") -> Iterator[Backend]:
    """A second backend of the same kind, with settings of its own."""
    with closing(open_backend(settings, cache=cache, run_label=label)) as backend:
        yield backend


def built(backend: Backend, setup: str = "true", start: str = "") -> Image:
    image = backend.build(Environment(setup=setup, start=start), timeout=120)
    assert isinstance(image, Image), image
    return image


def failure(backend: Backend, setup: str = "true", start: str = "", timeout: float = 120) -> BuildFailure:
    image = backend.build(Environment(setup=setup, start=start), timeout=timeout)
    assert isinstance(image, BuildFailure), image
    return image


def said(sandbox: Sandbox, command: str, timeout: float = 20) -> str:
    return sandbox.run(command, timeout=timeout).output.decode("utf-8", "replace").strip()


def as_root(sandbox: Sandbox, script: str) -> str:
    result = sandbox.exec(["/bin/sh", "-c", script], role=Role.ROOT, timeout=30)
    assert result.exit_code == 0, result
    return result.output.decode("utf-8", "replace").strip()


# What the agent is, and what it sees


def test_the_agent_is_an_ordinary_user_without_rights(ready: Ready, sandbox: Sandbox) -> None:
    assert (
        said(sandbox, "id -un; id -u; id -g; pwd; echo $HOME $USER") == "user\n1000\n1000\n/home/user\n/home/user user"
    )
    status = said(sandbox, "cat /proc/self/status")
    for line in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
        assert f"{line}:\t0000000000000000" in status
    assert ("CapBnd:\t0000000000000000" in status) == (ready.name != "docker"), "only Docker keeps root's for its root"
    assert "NoNewPrivs:\t1" in status
    one_user = any("one user" in limit for limit in ready.backend.probe().limits)
    for path in ("/usr/bin/x", "/opt/endless-grader/x", "/run/endless/x", *(() if one_user else ("/etc/x",))):
        assert sandbox.run(f"touch {path}", timeout=10).exit_code != 0, path
    for forbidden in ("mount -t tmpfs t /tmp", "chroot / true", "hostname x", "su -c id", "kill 1", "unshare -Ur true"):
        assert sandbox.run(forbidden, timeout=10).exit_code != 0, forbidden
    assert said(sandbox, "echo alive") == "alive"


def test_there_is_no_network_but_itself(sandbox: Sandbox) -> None:
    assert said(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1").split() == ["lo"]
    said(sandbox, "python3 -m http.server 8123 >/dev/null 2>&1 &")
    get = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:8123\").status)'"
    assert until(lambda: said(sandbox, get).endswith("200"))


def test_a_secret_of_the_runners_is_nowhere(ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = secrets.token_hex(8)
    (tmp_path / "secret").write_text(secret)
    monkeypatch.setenv("SECRET_OF_OURS", secret)
    with ready.start() as sandbox:
        for folder in (tmp_path, Path.cwd()):
            assert sandbox.run(f"ls {folder}/..?* {folder}/[!.]*", timeout=10).exit_code != 0, folder
        look = "env; cat /proc/*/environ; cat /proc/*/cmdline; true"
        assert secret not in said(sandbox, look) + as_root(sandbox, look)
        assert len(said(sandbox, "ls -d /proc/[0-9]*").split()) <= 6


# Builds


def test_a_setup_script_runs_as_root_and_leaves_its_home_files_to_the_agent(ready: Ready) -> None:
    setup = "id -u >/srv/who; pwd >>/srv/who; mkdir /home/user/d; echo x >/home/user/d/f; chmod 600 /home/user/d/f"
    with ready.backend.start(built(ready.backend, setup)) as sandbox:
        seen = said(sandbox, "cat /srv/who; stat -c '%U %a' d/f; echo y >>d/f; cat d/f; ls -A / | grep endless")
    assert seen == "0\n/\nuser 600\nx\ny"


def test_what_one_sandbox_changes_no_other_sees(ready: Ready) -> None:
    image = built(ready.backend, "echo first >/home/user/f")
    for _ in range(2):
        with ready.backend.start(image) as sandbox:
            assert said(sandbox, "cat f; cat /tmp/t 2>/dev/null; echo changed >f; echo t >/tmp/t") == "first"


def test_an_environment_is_built_once(ready: Ready) -> None:
    setup = "date +%s%N >/srv/when"
    times = []
    for _ in range(2):
        with ready.backend.start(built(ready.backend, setup)) as sandbox:
            times.append(said(sandbox, "cat /srv/when"))
    assert times[0] == times[1]


def test_an_image_can_be_forgotten_twice(ready: Ready) -> None:
    image = built(ready.backend, f"echo {secrets.token_hex(4)} >/srv/x")
    ready.backend.remove_image(image)
    ready.backend.remove_image(image)
    with pytest.raises(EngineError), ready.backend.start(image):
        pass


def test_a_failing_script_is_the_environments_fault_and_its_log_comes_back(ready: Ready) -> None:
    failed = failure(ready.backend, "set -e; echo before; echo oops >&2; (exit 7); echo after")
    assert failed == BuildFailure(log="before\noops\n(exit code 7)")


def test_a_script_that_hangs_is_stopped_with_what_it_started(ready: Ready) -> None:
    mark = new_mark()
    hung = failure(ready.backend, f"echo begun; setsid sleep {mark} & sleep {mark}", timeout=2)
    assert hung == BuildFailure(log="begun\n", timed_out=True)
    assert until(lambda: not processes_with(mark))


def test_background_processes_of_a_build_do_not_hold_it_up(ready: Ready) -> None:
    mark = new_mark()
    built(ready.backend, f"sleep {mark} & echo done")
    assert until(lambda: not processes_with(mark))


def test_a_long_log_keeps_its_end(ready: Ready) -> None:
    failed = failure(ready.backend, "seq 200000; false")
    assert failed.log.endswith("200000\n(exit code 1)")
    assert len(failed.log) < 25_000


def test_build_variables_reach_the_script_and_not_the_sandbox(
    settings: Settings, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_PROXY", "http://proxy")
    with (
        another(replace(settings, build_env=["BUILD_PROXY", "NOT_SET"]), cache) as backend,
        backend.start(built(backend, "echo $BUILD_PROXY >/srv/seen")) as sandbox,
    ):
        assert said(sandbox, "cat /srv/seen; echo [$BUILD_PROXY]; env | grep -c proxy") == "http://proxy\n[]\n0"


# Services


def test_a_start_script_runs_as_the_agent_before_its_shell_and_until_grading(ready: Ready) -> None:
    start = "id -un >who; python3 -m http.server 8124 --directory /home/user >/dev/null 2>&1 &"
    get = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://localhost:8124/who\").read().decode())'"
    with ready.backend.start(built(ready.backend, start=start)) as sandbox:
        assert until(lambda: said(sandbox, get) == "user")
        sandbox.quiesce()
        assert "refused" in said(sandbox, get)


def test_a_failing_start_script_is_a_build_failure_each_time(ready: Ready) -> None:
    for _ in range(2):
        assert failure(ready.backend, start="echo sorry; exit 3").log == "sorry\nstart.sh ended with exit code 3"


# Ending the agent's processes


def test_quiescing_ends_every_process_and_keeps_the_files(sandbox: Sandbox) -> None:
    mark = new_mark()
    said(
        sandbox,
        f"echo kept >f; (trap '' TERM HUP; exec sleep {mark}) & setsid sleep {mark} & disown -a; (sleep {mark} &)",
    )
    assert until(lambda: len(processes_with(mark)) >= 3)
    sandbox.quiesce()
    assert not processes_with(mark)
    assert as_root(sandbox, "cat /home/user/f") == "kept"
    sandbox.quiesce()
    assert said(sandbox, "cat f; pwd") == "kept\n/home/user"


def test_a_fork_bomb_is_contained(sandbox: Sandbox) -> None:
    sandbox.run("bomb() { bomb | bomb & }; bomb", timeout=2)
    assert "still there" in said(sandbox, "echo still there", timeout=20).splitlines()
    sandbox.quiesce()
    assert as_root(sandbox, "echo fine") == "fine"


def test_a_process_that_takes_all_memory_ends_alone(sandbox: Sandbox) -> None:
    said_of_it = said(sandbox, "kept=1; python3 -c 'x = bytearray(3 << 30)'; echo code $? kept $kept", timeout=60)
    assert "code 137 kept 1" in said_of_it or "MemoryError" in said_of_it


def test_memory_is_limited_for_the_whole_sandbox_on_docker_only(ready: Ready, settings: Settings, cache: Path) -> None:
    hold = "python3 -c 'import time; x = b\"x\" * (110 << 20); time.sleep(3)'"
    with another(replace(settings, memory_mb=256), cache) as backend, backend.start(built(backend)) as sandbox:
        lived = said(
            sandbox, f"for i in 1 2 3; do {hold} & done; for job in $(jobs -p); do wait $job; echo $?; done", 60
        )
    assert (lived.split() == ["0"] * 3) == (ready.name != "docker"), lived


def test_the_probe_says_what_is_not_enforced(ready: Ready) -> None:
    limits = " / ".join(ready.backend.probe().limits)
    not_enforced = {
        "docker": ("disk space is not limited",),
        "apptainer": ("memory is limited for each process", "processor time is not limited"),
        "local": ("memory is limited for each process", "processor time is not limited", "this machine's own"),
    }
    for limit in not_enforced[ready.name]:
        assert limit in limits
    assert "kernel is shared" in limits


# Programs beside the shell


def test_a_program_gets_its_input_its_folder_its_user_and_an_empty_environment(sandbox: Sandbox) -> None:
    data = secrets.token_bytes(300_000)
    result = sandbox.exec(["/usr/bin/sha256sum"], role=Role.ROOT, timeout=20, stdin=data)
    assert result.output.split()[0].decode() == hashlib.sha256(data).hexdigest()
    for role, uid in ((Role.ROOT, b"0\n"), (Role.AGENT, b"1000\n")):
        assert sandbox.exec(["id", "-u"], role=role, timeout=20).output == uid
        result = sandbox.exec(["pwd"], role=role, timeout=20, cwd="/usr/lib")
        assert (result.output, result.exit_code) == (b"/usr/lib\n", 0)
    values = dict(line.partition("=")[::2] for line in as_root(sandbox, "env").splitlines())
    assert not {name for name, value in values.items() if value} - {
        "PATH",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "HOME",
        "HOSTNAME",
    }


@pytest.mark.parametrize("role", list(Role))
def test_exit_codes_arrive(sandbox: Sandbox, role: Role) -> None:
    for script, code in (("true", 0), ("exit 3", 3), ("kill -9 $$", 137)):
        assert sandbox.exec(["/bin/sh", "-c", script], role=role, timeout=20).exit_code == code


@pytest.mark.parametrize("role", list(Role))
def test_a_program_that_overruns_ends_with_all_it_started(sandbox: Sandbox, role: Role) -> None:
    mark = new_mark()
    script = f"setsid sleep {mark} & echo begun; sleep {mark}"
    result = sandbox.exec(["/bin/bash", "-c", script], role=role, timeout=2)
    assert (result.timed_out, result.exit_code, result.output) == (True, None, b"begun\n")
    assert until(lambda: not processes_with(mark))
    flood = sandbox.exec(["yes"], role=role, timeout=20)
    assert (flood.truncated, flood.exit_code, len(flood.output)) == (True, None, 200_000)
    assert said(sandbox, "echo on we go") == "on we go"


@pytest.mark.parametrize("role", list(Role))
def test_a_program_that_does_not_exist_is_trouble(sandbox: Sandbox, role: Role) -> None:
    with pytest.raises(EngineError, match="nosuchprogram"):
        sandbox.exec(["nosuchprogram"], role=role, timeout=20)
    assert said(sandbox, "echo alive") == "alive"


def test_the_graders_python_works_and_is_its_own(ready: Ready, sandbox: Sandbox) -> None:
    program = "import json, os, sys; print(json.dumps([os.getuid(), sys.executable, sys.path, len(sys.stdin.read())]))"
    argv = [*python_argv(ready.backend.grader), "-c", program]
    result = sandbox.exec(argv, role=Role.ROOT, timeout=30, stdin=b"x" * 300_000)
    uid, executable, path, size = json.loads(result.output)
    assert (uid, size) == (0, 300_000)
    assert all(place.startswith(str(ready.backend.grader)) for place in (executable, *path)), result.output


# Many, and none left


def test_many_sandboxes_start_at_once(settings: Settings, cache: Path) -> None:
    with another(replace(settings, concurrency=8), cache) as backend:
        image = built(backend)

        def one(number: int) -> str:
            with backend.start(image) as sandbox:
                said(sandbox, f"echo {number} >mine")
                return said(sandbox, "cat mine; cat /tmp/* 2>/dev/null")

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(one, range(16))) == [str(number) for number in range(16)]
    assert len(list(Path("/proc/self/fd").iterdir())) < 200


def test_a_sandbox_leaves_nothing_even_when_its_user_fails(ready: Ready) -> None:
    mark = new_mark()

    def fail() -> None:
        with ready.start() as sandbox:
            said(sandbox, f"sleep {mark} &")
            assert until(lambda: bool(processes_with(mark)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert until(lambda: not processes_with(mark))


def test_closing_a_backend_ends_its_sandboxes(ready: Ready, settings: Settings, cache: Path) -> None:
    mark = new_mark()
    backend = open_backend(settings, cache=cache, run_label="tests")
    with backend.start(built(backend)) as sandbox:
        said(sandbox, f"sleep {mark} &")
        assert until(lambda: bool(processes_with(mark)))
        backend.close()
        assert until(lambda: not processes_with(mark))
    backend.close()


def test_a_killed_run_leaves_no_process_and_no_mount_at_the_next_start(
    ready: Ready, settings: Settings, cache: Path
) -> None:
    mark, mounts = new_mark(), Path("/proc/self/mountinfo").read_text()
    with abandoned(settings, cache, f"abandoned-{mark}", mark) as owner:
        assert until(lambda: len(processes_with(f"sleep\0{mark}")) == 3)
        ready.backend.reap()
        assert len(processes_with(f"sleep\0{mark}")) == 3, "it still had its owner"
        owner.kill()
        owner.wait()
    ready.backend.reap()
    assert until(lambda: not processes_with(mark))
    assert Path("/proc/self/mountinfo").read_text() == mounts


_KILLER = """
(while :; do for p in $(ps -eo pid=,comm= | awk '$2 == "bash" {print $1}'); do
  [ "$p" = "$BASHPID" ] || kill -9 "$p" 2>/dev/null; done; done) >/dev/null 2>&1 & disown; sleep 0.2"""


def test_an_agent_that_kills_every_new_shell_is_not_infrastructure_trouble(ready: Ready) -> None:
    with ready.start() as sandbox:
        sandbox.run(_KILLER, timeout=10)
        assert [said(sandbox, "echo still here") for _ in range(2)][-1] == "still here"
