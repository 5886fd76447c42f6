"""Whether Apptainer works here: its version, and what sandboxes do in its containers, tried without an image."""

import re

from runner.domain.errors import MissingRequirement
from runner.sandbox.apptainer.command import program
from runner.sandbox.apptainer.machine import output, output_inside
from runner.sandbox.local.identity import COUNT

OLDEST = (1, 2)
"""The first with build arguments in definition files."""
_OVERLAY = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work,userxattr"
_FILES = f"mkdir /tmp/lower /tmp/upper /tmp/work && mount -t overlay overlay -o {_OVERLAY} /mnt"
_NAMESPACES = "unshare --user --map-root-user --mount --pid --fork --mount-proc"
_TRY = f"cat /proc/self/uid_map && {_NAMESPACES} sh -c 'mount -t tmpfs tmpfs /tmp && {_FILES}'"


def version() -> str:
    """Apptainer's version. Raises MissingRequirement where there is none that will do."""
    said = output([program(), "--version"])
    found = re.search(r"(\d+)\.(\d+)\S*", said)
    if found is None:
        raise MissingRequirement(f"apptainer does not say its version: {said!r}")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise MissingRequirement(f"apptainer {found[0]} is too old: 1.2 or later is needed")
    return found[0]


def many_users() -> bool:
    """Whether containers have all users (newuidmap) or a single one. Raises MissingRequirement, where none starts."""
    rows = [line.split() for line in output_inside(_TRY).splitlines()]
    return sum(int(row[2]) for row in rows if len(row) == 3 and row[2].isdecimal()) >= COUNT
