"""Trouble comes with what to do about it."""

import errno
import os

import pytest

from runner.sandbox.advice import advised


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "endless clean"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "written to"),
        (errno.EACCES, "endless doctor"),
        (errno.EPERM, "endless doctor"),
        (errno.ENOMEM, "sandbox.memory_mb"),
        (errno.EAGAIN, "ulimit -u"),
        (errno.EMFILE, "ulimit -n"),
        (errno.ENOEXEC, "endless doctor"),
    ],
)
def test_the_remedy_fits_what_the_system_said(number: int, remedy: str) -> None:
    message = advised(f"It could not be done: {OSError(number, os.strerror(number), '/x')}.")
    assert message.startswith("It could not be done: [Errno")
    assert remedy in message
    assert message.endswith(".")
    assert ".." not in message
