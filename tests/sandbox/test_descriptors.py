"""The limit of open files, in processes of their own, whose limits can be lowered."""

import subprocess
import sys

PROGRAM = """
import resource, sys
from runner.domain.errors import MissingRequirement
from runner.sandbox.descriptors import raise_limit
from runner.schema import Sandbox

resource.setrlimit(resource.RLIMIT_NOFILE, (256, int(sys.argv[1])))
try:
    raise_limit(Sandbox(concurrency=int(sys.argv[2])))
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
except MissingRequirement as refusal:
    print(refusal)
"""


def under(hard: int, concurrency: int) -> str:
    argv = [sys.executable, "-c", PROGRAM, str(hard), str(concurrency)]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_as_many_files_are_allowed_as_may_be() -> None:
    assert under(2048, 8) == "2048 2048"


def test_too_few_files_for_the_sandboxes_are_refused_with_what_would_fit() -> None:
    said = under(1024, 300)
    assert "sandbox.concurrency=300" in said
    assert "1024" in said
    fitting = int(said.rpartition("=")[2])
    assert under(1024, fitting) == "1024 1024"
    assert "ulimit -Hn" in under(1024, fitting + 1)


def test_where_not_even_one_fits_nothing_impossible_is_proposed() -> None:
    assert "start fewer" in under(300, 1)
