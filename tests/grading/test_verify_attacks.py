"""Tricks that make a naive verifier say "pass", tried as the agent: every one must fail, and none may be infra."""

from typing import TYPE_CHECKING

import pytest
from support.attacks import AROUND, INSTEAD, RIGHT, SCRIPTS, TEST, WRONG

from runner.domain.episode import Outcome
from runner.grading.verify import Reason

if TYPE_CHECKING:
    from conftest import Engine


@pytest.mark.parametrize("attack", AROUND | INSTEAD)
def test_what_an_agent_prepared_does_not_help(engine: "Engine", attack: str) -> None:
    with engine.start() as sandbox:
        sandbox.run(WRONG, timeout=10)
        sandbox.run((AROUND | INSTEAD)[attack], timeout=4)
        verdict = engine.verify(sandbox, TEST, timeout=10)
    assert verdict.outcome is Outcome.FAIL, verdict.log
    if attack in AROUND:
        assert verdict.reason is Reason.ASSERTION, verdict.log


@pytest.mark.parametrize("attack", SCRIPTS)
def test_a_script_that_the_test_starts_cannot_bend_the_verdict(
    engine: "Engine", attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.grading.verify.GRACE_SECONDS", 3.0)
    with engine.start() as sandbox:
        sandbox.run(WRONG, timeout=10)
        sandbox.run(f"cat >run.sh <<'END OF SCRIPT'\n{SCRIPTS[attack]}\nEND OF SCRIPT", timeout=10)
        verdict = engine.verify(sandbox, TEST, timeout=8)
    assert verdict.outcome is Outcome.FAIL, verdict.log
    assert " is open" not in verdict.log
    assert "attached" not in verdict.log


@pytest.mark.parametrize("attack", AROUND)
def test_a_right_answer_passes_whatever_lies_around(engine: "Engine", attack: str) -> None:
    with engine.start() as sandbox:
        sandbox.run(AROUND[attack], timeout=4)
        sandbox.quiesce()
        sandbox.run(RIGHT, timeout=10)
        verdict = engine.verify(sandbox, TEST, timeout=20)
    assert verdict.outcome is Outcome.PASS, verdict.log


def test_right_passes_and_wrong_fails(engine: "Engine") -> None:
    for commands, outcome, passed in ((RIGHT, Outcome.PASS, 2), (WRONG, Outcome.FAIL, 0)):
        with engine.start() as sandbox:
            sandbox.run(commands, timeout=10)
            verdict = engine.verify(sandbox, TEST)
            assert (verdict.outcome, verdict.passed, verdict.collected) == (outcome, passed, 2), verdict.log


SECRET_TEST = """
import pathlib


def test_answer():
    wanted = pathlib.Path("/srv/secret").read_text().strip()
    print(f"expected {wanted}")
    assert wanted in pathlib.Path("answer.txt").read_text()
"""
"""The right answer lies in a file for root only, and is printed."""
LINKS = {
    "to the right answer": "ln -s /srv/secret answer.txt",
    "through another link": "ln -s /srv/secret a; ln -s a answer.txt",
    "through a folder": "ln -s / all; ln -s all/srv/secret answer.txt",
    "as a second name": "ln /srv/secret answer.txt",
    "through /proc": "ln -s /proc/self/root/srv/secret answer.txt",
    "to what the test prints": "ln -s /dev/stdout answer.txt",
}
LINKS |= {f"to the test's descriptor {number}": f"ln -s /proc/self/fd/{number} answer.txt" for number in range(16)}


def test_no_link_leads_a_test_to_what_the_agent_may_not_read(engine: "Engine") -> None:
    with engine.start() as sandbox:
        if sandbox.run("cat /srv/secret", timeout=10).exit_code == 0:
            pytest.skip("root and the agent are one user here, so nothing is secret")
        assert engine.verify(sandbox, SECRET_TEST).reason is Reason.ERROR, "there is no answer yet"
        for name, attack in LINKS.items():
            sandbox.run(f"rm -f answer.txt; {attack}", timeout=10)
            verdict = engine.verify(sandbox, SECRET_TEST, quiesce=False)
            assert verdict.outcome is Outcome.FAIL, f"{name}: {verdict.log}"
        sandbox.run("rm -f answer.txt; echo 42 >b; ln -s b answer.txt", timeout=10)
        assert engine.verify(sandbox, SECRET_TEST).outcome is Outcome.PASS, "honest links are followed"
