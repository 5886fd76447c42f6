"""Gate 3: the final test runs, fails on the untouched environment by an assertion, and passes after the oracle."""

from dataclasses import dataclass

from runner.domain.episode import Outcome
from runner.grading.oracle import run_oracle
from runner.grading.verify import Reason as VerdictReason
from runner.grading.verify import verify
from runner.phases.generate.environment import Built, complaint, test_untouched
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Complaint
from runner.phases.generate.reply import sections
from runner.prompts import PromptSet
from runner.sandbox.base import Backend
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What gate 3 yields."""

    final_test: str
    solution: str
    """The oracle, as it passed; empty without one."""


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Runs one reply's test where nothing was done, and where the oracle was."""

    config: Config
    backend: Backend
    prompts: PromptSet
    built: Built
    solution: str

    def __call__(self, reply: str) -> Checked | Complaint:
        """Raises ReplyError, EngineError."""
        found = sections(reply, ("final_test",), ("solution",))
        test = found["final_test"]
        keep_ports = self.built.keep_ports
        untouched = test_untouched(self.config, self.backend, self.built.image, test, keep_ports)
        if untouched.outcome is Outcome.PASS:
            return self._complain(Reason.FINAL_TEST_PASSES_UNTOUCHED, untouched.log)
        if untouched.reason is not VerdictReason.ASSERTION:
            return self._complain(Reason.FINAL_TEST_INVALID, untouched.log)
        solution = found.get("solution", self.solution)
        return self._with_oracle(test, solution) if solution else Checked(final_test=test, solution="")

    def _with_oracle(self, test: str, solution: str) -> Checked | Complaint:
        limits = self.config.sandbox
        with self.backend.start(self.built.image) as sandbox:
            ran = run_oracle(sandbox, solution, timeout=self.config.agent.episode_seconds)
            verdict = verify(
                sandbox,
                self.backend.grader,
                test,
                timeout=limits.verifier_seconds,
                keep_ports=self.built.keep_ports,
            )
        if verdict.outcome is Outcome.PASS:
            return Checked(final_test=test, solution=solution)
        said = ran.output.decode("utf-8", "replace")
        log = f"The reference solution:\n{solution}\nIts output (exit code {ran.exit_code}):\n{said}\n{verdict.log}"
        advice = "If the reference solution is wrong, send a corrected <solution> after the test."
        return complaint(self.config, self.prompts, Reason.ORACLE_FAILED, log, advice)

    def _complain(self, reason: Reason, log: str) -> Complaint:
        return complaint(self.config, self.prompts, reason, log)
