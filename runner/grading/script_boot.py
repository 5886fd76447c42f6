"""The program inside the sandbox that runs an imported ``tests/test.sh``. Never imported here: its text is sent.

Like ``boot.py`` it runs on the grader's own Python as the sandbox's root, after every process of the agent has ended,
and reports in one line that begins with the nonce. The tests go to ``/tests`` and the reward is expected in
``/logs/verifier``, as Harbor has it; both folders are made anew for root alone, so nothing of the agent is in them.
Links of the agent that lead there, or to what it may not read, are cut (``links.py``): a script that compares "the
answer" with the right one would follow them.
The script itself runs with the image's own tools, since that is what it was written for.
"""

import base64
import contextlib
import errno
import json
import math
import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from runner.grading.links import cut_agents_links  # its text stands before this one in the sandbox

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TESTS, LOGS = Path("/tests"), Path("/logs")
REWARD_BYTES = 1 << 20
FULL, TOLERANCE = 1.0, 1e-6
"""A mean of many ones may fall short of one by a rounding error."""


def main(payload: Mapping[str, Any], out: int) -> NoReturn:
    """Run the script and report. Leaves by ``os._exit``."""
    nonce = payload["nonce"].encode()
    _write(out, b"\n" + nonce + b"ready\n")  # from here on, trouble comes from the script or from the agent's files
    screen = os.memfd_create("screen")
    reason, reward, said = _grade(payload, screen)
    shutil.rmtree(TESTS, ignore_errors=True)
    log = _tail(screen, payload["log_bytes"]) + said
    report = {"reason": reason, "reward": reward, "log": log}
    _write(out, b"\n" + nonce + json.dumps(report).encode() + b"\n")
    os._exit(0 if reason == "passed" else 1)


def _grade(payload: Mapping[str, Any], screen: int) -> tuple[str, float | None, str]:
    """The reason, the reward if there is one, and what to add to the log."""
    try:
        verifier = _prepare(payload)
        searched = cut_agents_links(payload["search_seconds"])
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return ("no_space" if full else "no_place"), None, f"the tests could not be put in place: {error}"
    if not searched:
        return "timeout", None, f"there are too many files to search in {payload['search_seconds']:g} s"
    if not _run(payload, screen):
        return "timeout", None, f"\ntests/test.sh took longer than {payload['seconds']:g} s"
    return judge(verifier)


def _prepare(payload: Mapping[str, Any]) -> Path:
    """Put the tests in place; the empty folder for the reward. Raises OSError."""
    _anew(TESTS)
    for name, content in {**payload["files"], "test.sh": payload["script"]}.items():
        path = TESTS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = base64.b64decode(content)
        path.write_bytes(data)
        path.chmod(0o755 if data.startswith(b"#!") or name == "test.sh" else 0o644)
    _owned(LOGS)
    _anew(LOGS / "verifier")
    return LOGS / "verifier"


def _anew(folder: Path) -> None:
    """An empty folder for root only. What was there steps aside: deleting a deep tree could take for ever."""
    if os.path.lexists(folder):
        _aside(folder, folder.with_name(f".endless-{secrets.token_hex(8)}"))
    folder.mkdir(mode=0o700)


def _owned(folder: Path) -> None:
    """A folder that is root's: an image may have given it to the agent, or the agent made a link of it."""
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        _aside(folder, folder.with_name(f".endless-{secrets.token_hex(8)}"))
    folder.mkdir(mode=0o755, exist_ok=True)
    os.chown(folder, 0, 0, follow_symlinks=False)
    folder.chmod(0o755)


def _aside(path: Path, place: Path) -> None:
    """Move something away. Overlay file systems cannot rename a folder of the image, only what is newer, so there
    each entry moves by itself; an agent cannot make the image's own tree any deeper."""
    try:
        path.rename(place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        place.mkdir(mode=0o700)
        for number, entry in enumerate(list(path.iterdir())):
            _aside(entry, place / str(number))
        path.rmdir()


def _run(payload: Mapping[str, Any], screen: int) -> bool:
    """Run the script to its end, whatever its exit code; False when time ran out. What it left running is ended."""
    script = str(TESTS / "test.sh")
    process = _start([script], payload["cwd"], screen) or _start(["/bin/bash", script], payload["cwd"], screen)
    if process is None:
        os.write(screen, b"tests/test.sh cannot be executed: its interpreter is not in the image\n")
        return True
    try:
        process.wait(payload["seconds"])
    except subprocess.TimeoutExpired:
        return False
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return True


def _start(argv: list[str], cwd: str, screen: int) -> "subprocess.Popen[bytes] | None":
    """None when the kernel will not execute it: no ``#!`` line, or an interpreter that is not there."""
    env = {"PATH": PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root", "LANG": "C.UTF-8", "TERM": "dumb"}
    folder = cwd if Path(cwd).is_dir() else "/"
    try:
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=screen, stderr=screen, cwd=folder, env=env, start_new_session=True
        )
    except OSError:
        return None


def judge(folder: Path) -> tuple[str, float | None, str]:
    """(reason, reward, what to say) of a verifier's folder: ``reward.json`` counts before ``reward.txt``."""
    readers: tuple[tuple[str, Callable[[bytes], float]], ...] = (("reward.json", _of_json), ("reward.txt", _of_text))
    for name, read in readers:
        try:
            content = _read(folder / name)
            if content is None:
                continue
            reward = read(content)
        except (OSError, ValueError, RecursionError) as error:
            return "no_reward", None, f"\n{name} holds no reward that can be read: {error}"
        return _reason(reward), reward, f"\nreward {reward:g} ({name})"
    return "no_reward", None, "\ntests/test.sh wrote neither /logs/verifier/reward.json nor reward.txt"


def _reason(reward: float) -> str:
    if reward > FULL + TOLERANCE:
        return "out_of_range"
    return "passed" if reward >= FULL - TOLERANCE else "low_reward"


def _read(path: Path) -> bytes | None:
    """A plain file's content, None where there is none. Raises OSError, ValueError."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(file, "rb") as stream:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is not a plain file")
        content = stream.read(REWARD_BYTES + 1)
    if len(content) > REWARD_BYTES:
        raise ValueError("it is larger than 1 MiB")
    return content


def _of_text(content: bytes) -> float:
    return _number(float(content.decode("utf-8").strip()))


def _of_json(content: bytes) -> float:
    """A number, or an object: its ``reward`` counts, or else the least of its numbers."""
    value = json.loads(content.decode("utf-8"))
    if isinstance(value, dict):
        value = value["reward"] if "reward" in value else min(map(_number, value.values()), default=None)
    return _number(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{str(value)[:50]!r} is not a number")
    return float(value)


def _tail(screen: int, limit: int) -> str:
    size = os.fstat(screen).st_size
    return os.pread(screen, limit, max(0, size - limit)).decode("utf-8", "replace")


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


if __name__ == "__main__":
    main(json.loads(sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))), os.dup(1))
