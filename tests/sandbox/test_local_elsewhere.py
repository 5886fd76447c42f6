"""The same promises under other circumstances: these tests run others anew as an ordinary user, whose sandboxes have
a single user and work differently inside, and on a machine with mounts inside its system folders, as containers have.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.local, pytest.mark.live]

ORDINARY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def python(local_ok: str) -> str:
    """An interpreter that an ordinary user may run, with our packages on its path."""
    if os.geteuid() != 0:
        pytest.skip("the other tests have just run as an ordinary user")
    if not os.environ.get("ENDLESS_REQUIRE_LIVE"):
        pytest.skip("running other tests once more takes a minute: only with ENDLESS_REQUIRE_LIVE=1, as in CI")
    for candidate in (sys.executable, shutil.which(f"python3.{sys.version_info[1]}", path="/usr/local/bin:/usr/bin")):
        command = [*ORDINARY, "/bin/sh", "-c", f"exec {candidate} -c 'import pytest, runner'"]
        if candidate and subprocess.run(command, env=environment(), capture_output=True, check=False).returncode == 0:
            return candidate
    pytest.skip("no Python here that an ordinary user may run: the one of these tests lies in root's home")


def environment() -> dict[str, str]:
    packages = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(
    ("files", "only"),
    [
        ("tests/sandbox/test_local.py", ""),
        ("tests/grading/test_verify.py", "not docker"),
        ("tests/grading/test_verify_attacks.py", "local and (bend or wrong_fails or does_not_help)"),
        ("tests/grading/test_services.py", "local"),
        ("tests/grading/test_services_attacks.py", "local and (no_help or uses_up or cannot_start or bomb or single)"),
        ("tests/sandbox/test_shell.py", "local and (jobs or time or dies)"),
    ],
)
def test_an_ordinary_user_gets_the_same_sandbox(python: str, tmp_path: Path, files: str, only: str) -> None:
    folder = Path("/tmp") / f"ordinary-{os.getpid()}-{tmp_path.parent.name}"
    folder.mkdir()
    try:
        os.chown(folder, 65534, 65534)
        command = [*ORDINARY, python, "-m", "pytest", "-q", "-rs", f"--basetemp={folder / 'tests'}", files]
        command += ["-k", only] if only else []
        done = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "no local sandbox" not in done.stdout


def test_mounts_inside_system_folders_do_no_harm(local_ok: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount for this")
    mounts = "mount -t tmpfs t /usr/share/doc && mount --bind /etc/hostname /etc/hostname"
    tests = (
        f"{sys.executable} -m pytest -q --basetemp={tmp_path}/tests tests/sandbox/test_local.py -k 'setup or deletions'"
    )
    command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", f"{mounts} && exec {tests}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout
