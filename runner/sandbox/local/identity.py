"""Who the users inside a sandbox are outside it: the three ways a user namespace can be filled."""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HIGH = 1_000_000_000
"""Where root maps the sandbox's users to: numbers that own nothing on this machine."""
COUNT = 65_536


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The sandbox's users 0 to ``count`` - 1 are ``first`` and up outside."""

    kind: str
    """``root``: we may write any map; ``subuid``: newuidmap does it for us; ``single``: one user only."""
    first: int
    first_group: int
    count: int

    @property
    def single(self) -> bool:
        """The sandbox has one user, who is us."""
        return self.kind == "single"

    def apply(self, pid: int) -> None:
        """Fill the maps of the process's new user namespace. Raises OSError."""
        users, groups = f"0 {self.first} {self.count}", f"0 {self.first_group} {self.count}"
        if self.kind == "subuid":
            for tool, line in (("newuidmap", users), ("newgidmap", groups)):
                done = subprocess.run([tool, str(pid), *line.split()], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise OSError(0, f"{tool}: {done.stderr.strip()}")
            return
        process = Path(f"/proc/{pid}")
        if self.single:
            (process / "setgroups").write_text("deny", encoding="ascii")
        (process / "gid_map").write_text(groups, encoding="ascii")
        (process / "uid_map").write_text(users, encoding="ascii")


def find_identity() -> Identity:
    """The best that this user may have: many users where possible, so that the agent and root differ."""
    if os.geteuid() == 0 and _owns(HIGH):
        return Identity(kind="root", first=HIGH, first_group=HIGH, count=COUNT)
    users, groups = _range(Path("/etc/subuid")), _range(Path("/etc/subgid"))
    if users is not None and groups is not None and shutil.which("newuidmap") and shutil.which("newgidmap"):
        return Identity(kind="subuid", first=users, first_group=groups, count=COUNT)
    return Identity(kind="single", first=os.geteuid(), first_group=os.getegid(), count=1)


def _owns(first: int) -> bool:
    """Whether the range at ``first`` exists here (inside another user namespace it may not)."""
    ranges = [line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()]
    return any(int(start) <= first and first + COUNT <= int(start) + int(count) for start, _, count in ranges)


def _range(file: Path) -> int | None:
    """The first id of a big enough range that ``file`` grants this user."""
    if not file.is_file():
        return None
    names = {str(os.geteuid())}
    try:
        names.add(pwd.getpwuid(os.geteuid()).pw_name)
    except KeyError:
        return None
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if name in names and first.isdecimal() and count.isdecimal() and int(count) >= COUNT:
            return int(first)
    return None
