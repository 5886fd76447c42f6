"""A container of this machine's own programs, which needs no image: to try Apptainer, and to remove its files."""

import contextlib
import shutil
import subprocess
from pathlib import Path

from runner.domain.errors import MissingRequirement
from runner.sandbox.apptainer.command import environment, exec_argv
from runner.store.scratch import scratch

SECONDS = 30
REMOVE, REMOVE_SECONDS = "find /mnt -mindepth 1 -delete", 600
_FOLDERS = ("usr", "bin", "lib", "lib64", "sbin")
_POINTS = ("dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var/tmp")


def output_inside(script: str, *, writable: Path | None = None, seconds: float = SECONDS) -> str:
    """What a shell script says as (fake) root; ``writable`` is a folder to show at /mnt. Raises MissingRequirement
    when it fails."""
    with scratch("machine") as image:
        image.chmod(0o755)
        for point in (*_POINTS, *_FOLDERS):
            (image / point).mkdir(parents=True)
        mounts = {Path("/", folder): f"/{folder}" for folder in _FOLDERS if Path("/", folder).is_dir()}
        return output(exec_argv(image, mounts, ["/bin/sh", "-c", script], writable=writable), seconds)


def output(argv: list[str], seconds: float = SECONDS) -> str:
    """What a command of Apptainer's says. Raises MissingRequirement when it fails."""
    try:
        done = subprocess.run(
            argv,
            cwd="/",
            capture_output=True,
            env=environment(),
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingRequirement(f"apptainer cannot be run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[-500:].decode("utf-8", "replace").strip()
        raise MissingRequirement(f"apptainer cannot start a container: {said}")
    return done.stdout.decode("utf-8", "replace")


def remove(folder: Path) -> None:
    """Delete a folder that containers have written to: some of its files may belong to their users, not to us. (Or a
    file.) What cannot be deleted stays. Does not raise."""
    if folder.is_file():
        with contextlib.suppress(OSError):
            folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        with contextlib.suppress(MissingRequirement, OSError):  # a later run tries again
            output_inside(REMOVE, writable=folder.resolve(), seconds=REMOVE_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)
