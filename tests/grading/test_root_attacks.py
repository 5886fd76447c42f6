"""The same as root. No backend lets an agent become root; should one succeed all the same, through a hole in an image,
the grader still stands on files that the sandbox's root cannot change. What it can change is pinned at the end."""

from typing import TYPE_CHECKING

import pytest
from support.attacks import RIGHT, ROOT, TEST, WRONG

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError
from runner.sandbox.base import Role, Sandbox

if TYPE_CHECKING:
    from conftest import Engine


def attack(sandbox: Sandbox, script: str) -> None:
    sandbox.exec(["/bin/bash", "-c", script], role=Role.ROOT, timeout=20, cwd="/root")


def outcome(engine: "Engine", sandbox: Sandbox, test: str = TEST) -> Outcome:
    """Infrastructure trouble earns nothing: the episode is tried again, and then reported."""
    try:
        return engine.verify(sandbox, test, timeout=20).outcome
    except EngineError:
        return Outcome.INFRA


@pytest.mark.parametrize("name", ROOT)
def test_a_wrong_answer_does_not_pass(engine: "Engine", name: str) -> None:
    with engine.start() as sandbox:
        sandbox.run(WRONG, timeout=10)
        attack(sandbox, ROOT[name])
        assert outcome(engine, sandbox) is Outcome.FAIL


@pytest.mark.parametrize("name", ROOT)
def test_a_right_answer_passes_all_the_same(engine: "Engine", name: str) -> None:
    with engine.start() as sandbox:
        sandbox.run(RIGHT, timeout=10)
        attack(sandbox, ROOT[name])
        assert outcome(engine, sandbox) is Outcome.PASS


# The limits: what root has power over, whatever a grader does


def test_limit_root_replaces_the_programs_that_tests_start(engine: "Engine") -> None:
    test = "import subprocess\ndef test(): assert subprocess.check_output(['bash', '/home/user/run.sh']) == b'hello\\n'"
    forged = "#!/bin/b\\necho hello\\n"
    with engine.start() as sandbox:
        sandbox.run(WRONG, timeout=10)
        attack(sandbox, f"cp /bin/bash /bin/b; rm /bin/bash && printf '{forged}' >/bin/bash; chmod 755 /bin/bash")
        replaced = sandbox.exec(["head", "-c", "8", "/bin/bash"], role=Role.ROOT, timeout=10).output == b"#!/bin/b"
        assert outcome(engine, sandbox, test) is (Outcome.PASS if replaced else Outcome.FAIL)


def test_limit_root_keeps_the_grader_from_working_which_earns_nothing(engine: "Engine") -> None:
    for answer in (WRONG, RIGHT):
        with engine.start() as sandbox:
            sandbox.run(answer, timeout=10)
            attack(sandbox, "for d in opt run dev etc; do mv /$d /away-$d; done")
            assert outcome(engine, sandbox) in (Outcome.INFRA, Outcome.FAIL if answer == WRONG else Outcome.PASS)


def test_limit_root_reads_and_writes_whatever_a_test_compares_with(engine: "Engine") -> None:
    test = "def test(): assert open('/home/user/answer.txt').read() == open('/srv/secret').read()"
    with engine.start() as sandbox:
        sandbox.run(WRONG, timeout=10)
        assert outcome(engine, sandbox, test) is Outcome.FAIL
        attack(sandbox, "cp /home/user/answer.txt /srv/secret")
        assert outcome(engine, sandbox, test) is Outcome.PASS
