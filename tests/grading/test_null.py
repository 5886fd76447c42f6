"""The null backend speaks the verifier's own language, so the two must be changed together."""

from pathlib import Path

from runner.domain.episode import Outcome
from runner.domain.task import Environment
from runner.grading.verify import Reason, verify
from runner.sandbox.null import NullBackend
from runner.schema import Sandbox


def test_its_default_verdicts_are_those_of_a_sound_task() -> None:
    backend = NullBackend(Sandbox(), Path(), "x")
    with backend.start(backend.build(Environment(setup="anything"), timeout=1)) as sandbox:
        assert verify(sandbox, backend.grader, "# initial", timeout=1).outcome is Outcome.PASS
        untouched = verify(sandbox, backend.grader, "# final", timeout=1)
        assert (untouched.outcome, untouched.reason, untouched.failed) == (Outcome.FAIL, Reason.ASSERTION, 1)
        assert sandbox.run("anything", timeout=1).exit_code == 0
        assert verify(sandbox, backend.grader, "# final", timeout=1).outcome is Outcome.PASS


def test_its_verdicts_can_be_scripted() -> None:
    backend = NullBackend(Sandbox(), Path(), "x")
    backend.verdict = lambda test, commands: "magic" in test and list(commands) == ["a", "b"]
    with backend.start(backend.build(Environment(), timeout=1)) as sandbox:
        sandbox.run("a", timeout=1)
        assert verify(sandbox, backend.grader, "magic", timeout=1).outcome is Outcome.FAIL
        sandbox.run("b", timeout=1)
        assert verify(sandbox, backend.grader, "magic", timeout=1).outcome is Outcome.PASS
