"""Whether Apptainer works here: a container of this machine's own programs, which needs no image."""

import re
import subprocess
import tempfile
from pathlib import Path

from runner.domain.errors import MissingRequirement
from runner.sandbox.apptainer.command import environment, exec_argv, program
from runner.sandbox.local.identity import COUNT

SECONDS = 30
OLDEST = (1, 2)
"""The first with build arguments in definition files."""
_FOLDERS = ("usr", "bin", "lib", "lib64", "sbin")
_POINTS = ("dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var/tmp")
_OVERLAY = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr"
_FILES = f"mkdir /tmp/lower /tmp/upper /tmp/work && mount -t overlay overlay -o {_OVERLAY} /mnt"
_NAMESPACES = "unshare --user --map-root-user --mount --pid --fork --mount-proc"
_TRY = f"cat /proc/self/uid_map && {_NAMESPACES} sh -c 'mount -t tmpfs tmpfs /tmp && {_FILES}'"


def version() -> str:
    """Apptainer's version. Raises MissingRequirement where there is none that will do."""
    said = _said([program(), "--version"])
    found = re.search(r"(\d+)\.(\d+)\S*", said)
    if found is None:
        raise MissingRequirement(f"apptainer does not say its version: {said!r}")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise MissingRequirement(f"apptainer {found[0]} is too old: 1.2 or later is needed")
    return found[0]


def many_users() -> bool:
    """Whether containers have all users (newuidmap) or a single one. Raises MissingRequirement, where none starts."""
    with tempfile.TemporaryDirectory(prefix="endless-probe-") as name:
        image = Path(name)
        image.chmod(0o755)
        for point in (*_POINTS, *_FOLDERS):
            (image / point).mkdir(parents=True)
        mounts = {Path("/", folder): f"/{folder}" for folder in _FOLDERS if Path("/", folder).is_dir()}
        said = _said(exec_argv(image, mounts, ["/bin/sh", "-c", _TRY]))
    rows = [line.split() for line in said.splitlines()]
    return sum(int(row[2]) for row in rows if len(row) == 3 and row[2].isdecimal()) >= COUNT


def _said(argv: list[str]) -> str:
    try:
        done = subprocess.run(
            argv,
            cwd="/",
            capture_output=True,
            env=environment(),
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingRequirement(f"apptainer cannot be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[-500:].decode("utf-8", "replace").strip()
        raise MissingRequirement(f"apptainer cannot start a container: {said}")
    return done.stdout.decode("utf-8", "replace")
