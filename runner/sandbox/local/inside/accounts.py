"""The sandbox's own /etc/passwd and its kin: the system's accounts, the agent's, and nobody else's."""

from collections.abc import Iterator
from pathlib import Path

from runner.domain.task import AGENT_HOME, AGENT_USER

AGENT = 1000
_SYSTEM_IDS = range(1000)
_NOBODY = 65534


def files(root: Path) -> dict[str, str]:
    """File name below /etc -> content, from the accounts of the root folder ``root``."""
    users = [line for line in _entries(root / "etc/passwd", 7) if line[0] != "root"]
    groups = [line for line in _entries(root / "etc/group", 4) if line[0] != "root"]
    users.insert(0, ["root", "x", "0", "0", "root", "/root", "/bin/bash"])
    groups.insert(0, ["root", "x", "0", ""])
    users.append([AGENT_USER, "x", str(AGENT), str(AGENT), "", AGENT_HOME, "/bin/bash"])
    groups.append([AGENT_USER, "x", str(AGENT), ""])
    return {
        "passwd": _text(users),
        "group": _text([[*group[:3], ""] for group in groups]),
        "shadow": _text([[user[0], "*", "19000", "0", "99999", "7", "", "", ""] for user in users]),
        "gshadow": _text([[group[0], "*", "", ""] for group in groups]),
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "hostname": "sandbox\n",
    }


def _entries(file: Path, fields: int) -> Iterator[list[str]]:
    """The system's own lines of an account file; none where there is no such file."""
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines() if file.is_file() else []
    for line in lines:
        parts = line.split(":")
        if len(parts) == fields and parts[0] != AGENT_USER and parts[2].isdecimal():
            number = int(parts[2])
            if number in _SYSTEM_IDS or number == _NOBODY:
                yield parts


def _text(lines: list[list[str]]) -> str:
    return "".join(":".join(line) + "\n" for line in lines)
