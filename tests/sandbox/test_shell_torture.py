"""The persistent shell against commands that mean harm, in every sandbox: whatever ran, the next command works.

Fixed lists of what breaks shells and their drivers, then the same in random combinations and any bytes at all. Nothing
here runs outside a sandbox.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.engines import InSandbox, Ready
from support.hostile import KINDS, assert_folder_is_true, assert_recovers, commands, texts, timed

from runner.sandbox.base import Sandbox

BOUNDED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
EXAMPLES = {"local": 25, "docker": 15, "apptainer": 15}
"""Fresh sandboxes, each with up to ``STEPS`` commands."""
STEPS = 10
TEXTS = 300
HARMLESS = ("broken syntax", "much of it")
"""These leave a shell as it was."""


@pytest.mark.parametrize("kind", KINDS)
def test_after_each_hostile_command_the_next_one_works(sandbox: Sandbox, kind: str) -> None:
    shell = InSandbox(sandbox)
    for command in KINDS[kind]:
        timed(shell, command, 2.0)
        assert_folder_is_true(shell, assert_recovers(shell))
        if kind not in HARMLESS:
            shell.run("exec true", 5)  # a new shell for the next one
            shell.run("cd; chmod 755 ~; rm -rf /tmp/*", 5)


class Torture(RuleBasedStateMachine):
    """One sandbox and the commands it gets."""

    def __init__(self, ready: Ready) -> None:
        super().__init__()
        self._opened = ready.start()
        self._shell = InSandbox(self._opened.__enter__())

    @rule(command=commands())
    def harm(self, command: str) -> None:
        timed(self._shell, command, 1.0)

    @rule(code=st.integers(0, 255))
    def end_with(self, code: int) -> None:
        result = timed(self._shell, f"/bin/sh -c 'exit {code}'", 2.0)
        assert result.exit_code == code or result.restarted or result.output or result.timed_out, result

    @invariant()
    def the_next_command_works(self) -> None:
        assert_folder_is_true(self._shell, assert_recovers(self._shell))

    def teardown(self) -> None:
        self._opened.__exit__(None, None, None)


@pytest.mark.timeout(900)
def test_no_sequence_of_commands_breaks_the_shell(ready: Ready) -> None:
    bounded = settings(BOUNDED, max_examples=EXAMPLES[ready.name], stateful_step_count=STEPS)
    run_state_machine_as_test(lambda: Torture(ready), settings=bounded)


def test_any_bytes_run_or_are_refused_with_a_reason(sandbox: Sandbox) -> None:
    shell = InSandbox(sandbox)

    @settings(BOUNDED, max_examples=TEXTS)
    @given(texts() | st.text(max_size=20))
    def check(text: str) -> None:
        result = timed(shell, text, 1.0)
        assert bool(result.refused) == ("\0" in text or _unspeakable(text))
        assert_recovers(shell)

    check()


def _unspeakable(text: str) -> bool:
    """It holds half of a surrogate pair, which stands for no byte."""
    return any("\ud800" <= letter <= "\udfff" and not "\udc80" <= letter <= "\udcff" for letter in text)
