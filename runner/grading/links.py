"""Links that an agent leaves behind, and what root must not find at their end. Runs inside the sandbox.

A test runs as root and reads "the answer" by its name. Where the agent has made a link of it, the test would follow it
to what the agent could not read itself: the right answer in a file for root only, or, below ``/proc/self/fd``, what the
test has printed. So the grader refuses to open such links (``refuse_links``); before a script of others is run, which
has no such guard, they are removed (``cut_links``). Where a service of the agent's runs beside the test, links may also
change between a look and an opening, so there what was opened is looked at as well (``refuse_swaps``).

``verify.execute`` sends this text before the program's own: the two become one program.
"""

import builtins
import contextlib
import errno
import functools
import io
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

AGENT = 1000
HIDDEN = ("/tests", "/logs/verifier", "/proc")
"""Where no link of the agent may lead when a script of others runs. Below /proc lie the files that it has open."""
WITHOUT_LINKS = ("proc", "sysfs", "devpts", "mqueue", "cgroup", "cgroup2")
WRITABLE = ("/home", "/tmp", "/var/tmp", "/dev/shm", "/srv", "/opt", "/run")
"""Where links are looked for in a sandbox with a single user, in which owners say nothing."""
MOST_LINKS = 40
"""The kernel follows no more."""
_PROCESS = re.compile(r"/proc/(self|thread-self|\d+)(/|$)")


def agent_exists() -> bool:
    """Whether the agent's id is another than ours in this user namespace."""
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    return any(int(first) <= AGENT < int(first) + int(count) for first, _, count in ranges)


def refuse_links() -> None:
    """From now on, opening a file of this process by a name that a link of the agent's leads astray is an error."""
    owner = AGENT if agent_exists() else os.geteuid()

    def look(event: str, arguments: tuple[object, ...]) -> None:
        if event in {"open", "sqlite3.connect"} and isinstance(arguments[0], str | bytes):
            name = os.fsdecode(arguments[0])
            if leads_astray(name, owner):
                raise PermissionError(errno.EACCES, "a link of the agent's leads to what is not the agent's", name)

    sys.addaudithook(look)


def refuse_swaps() -> None:
    """From now on, a file that ``open`` has opened must be the one that its name leads to, and by no link that leads
    astray, or opening it is an error: however somebody swaps links meanwhile, one of the two does not hold. Not
    covered: ``sqlite3.connect``."""
    owner = AGENT if agent_exists() else os.geteuid()
    builtins.open = io.open = _looking_back(builtins.open, owner)
    os.open = _looking_back(os.open, owner)


def _looking_back(opens: Callable[..., Any], owner: int) -> Callable[..., Any]:
    @functools.wraps(opens)
    def opened(file: Any, *arguments: Any, **options: Any) -> Any:
        result = opens(file, *arguments, **options)
        unnamed = opens.__module__ == "posix" and arguments and arguments[0] & os.O_TMPFILE == os.O_TMPFILE
        if isinstance(file, int) or unnamed or options.get("opener") or options.get("dir_fd") is not None:
            return result
        name, number = os.fsdecode(file), result if isinstance(result, int) else result.fileno()
        if was_swapped(name, number, owner):
            os.close(number) if isinstance(result, int) else result.close()
            raise PermissionError(errno.EACCES, "somebody has changed what it leads to", name)
        return result

    return opened


def was_swapped(name: str, descriptor: int, owner: int) -> bool:
    """Whether what was opened by a name is not what the name leads to, or led there astray. Both are told by walking
    one and the same way: on a second one, the links may be others."""
    steps = [("/", -1), *_steps(name)]
    opened = os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")  # noqa: PTH115
    return opened != steps[-1][0] or _astray(steps, owner)


def leads_astray(name: str, owner: int) -> bool:
    """Whether a name is resolved through a link of ``owner`` to a process's own files, or to what ``owner`` may not
    read; or whether it is a hard link to such a file, which some kernels let anybody make. A program that changes links
    at the same time can make the answer wrong."""
    return _astray(_steps(name), owner)


def _astray(steps: Iterable[tuple[str, int]], owner: int) -> bool:
    through = False
    end = "/"
    for place, link in steps:
        through = through or link == owner
        if through and _PROCESS.match(place):
            return True
        end = place
    return (through or _has_many_names(end)) and not may_read(end, owner)


def _has_many_names(path: str) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _steps(name: str) -> Iterator[tuple[str, int]]:
    """Every place on the way that the kernel takes, and who owns the link there; -1 where there is none."""
    path = name if name.startswith("/") else f"{os.getcwd()}/{name}"  # noqa: PTH109
    here, todo, links = "/", path.split("/"), 0
    while todo:
        part = todo.pop(0)
        if part in ("", "."):
            continue
        place = os.path.dirname(here) if part == ".." else os.path.join(here, part)  # noqa: PTH118, PTH120
        try:
            status = os.lstat(place)
            target = os.readlink(place) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115
        except OSError:
            yield place, -1
            return  # there is nothing to open
        yield place, status.st_uid if target else -1
        if not target:
            here = place
            continue
        links += 1
        if links > MOST_LINKS:
            return
        here = "/" if target.startswith("/") else here
        todo[:0] = target.split("/")


def may_read(path: str, user: int) -> bool:
    """Whether a user without rights, in the group of the same number, can read what a path without links names. True
    for what does not exist."""
    folders = [str(folder) for folder in Path(path).parents]
    try:
        Path(path).lstat()
        return all(_allows(folder, user, 1) for folder in folders) and _allows(path, user, 4)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _allows(path: str, user: int, what: int) -> bool:
    status = Path(path).stat()
    shift = 6 if status.st_uid == user else 3 if status.st_gid == user else 0
    return bool(status.st_mode >> shift & what)


def cut_agents_links(seconds: float) -> bool:
    """Remove every link of the agent's that leads to hidden places; False when that was not done within ``seconds``."""
    places = _mounts()
    if agent_exists():
        return cut_links([place for place, writable in places.items() if writable], AGENT, seconds, places)
    return cut_links(WRITABLE, os.geteuid(), seconds, places)


def cut_links(roots: Sequence[str], owner: int, seconds: float, skip: Container[str] = ()) -> bool:
    """See ``cut_agents_links``, for links of ``owner`` below ``roots``; folders to ``skip`` are looked into only as
    roots.

    Not recursive: an agent may have made a tree of any depth. What lies too deep to be named is left; a link that
    leads there through other links is removed, since nobody can say where it leads.
    """
    folders, deadline = list(roots), time.monotonic() + seconds
    while folders:
        folder = folders.pop()
        if time.monotonic() > deadline:
            return False
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                if entry.stat(follow_symlinks=False).st_uid == owner and leads_to_hidden(entry.path, owner):
                    os.unlink(entry.path)  # noqa: PTH108
            elif entry.is_dir(follow_symlinks=False) and entry.path not in skip:
                folders.append(entry.path)
    return True


def leads_to_hidden(link: str, owner: int) -> bool:
    """Whether a link's target, or the folder that its target is named in, is a hidden place, one that ``owner`` may
    not read, or cannot be told."""
    folder = os.path.dirname(link)  # noqa: PTH120
    try:
        named_in = os.path.dirname(os.path.join(folder, os.readlink(link)))  # noqa: PTH115, PTH118, PTH120
        places = [os.path.realpath(named_in), os.path.realpath(link)]
        with contextlib.suppress(
            FileNotFoundError, NotADirectoryError
        ):  # it leads nowhere, and nobody will change that
            places.append(os.path.realpath(link, strict=True))
    except OSError:
        return True
    if not may_read(places[-1], owner):
        return True
    return any(place == hidden or place.startswith(hidden + "/") for place in places for hidden in HIDDEN)


def _mounts() -> dict[str, bool]:
    """Every mount point, and whether links can be made there."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()]
    return {
        parts[4].encode("latin-1", "replace").decode("unicode_escape"): "ro" not in parts[5].split(",")
        and parts[parts.index("-") + 1] not in WITHOUT_LINKS
        for parts in lines
    }
