"""Gate 2: set-up script and initial-state test; the image builds and the test passes in it."""

from dataclasses import dataclass

from runner.agent.protocol import CHARS_PER_TOKEN
from runner.domain.episode import Outcome
from runner.domain.task import Environment, HealthCheck
from runner.grading.verify import Reason as VerdictReason
from runner.grading.verify import Verdict, verify
from runner.phases.generate.reasons import MEANING, Reason
from runner.phases.generate.repair import Complaint
from runner.phases.generate.reply import ports, sections
from runner.prompts import PromptSet
from runner.sandbox.base import Backend, BuildFailure, Image
from runner.schema import Config

NOT_RUNNABLE = (VerdictReason.COLLECTION_ERROR, VerdictReason.NO_TESTS)
"""The test file itself is no use: it does not parse or import, or holds no test."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """What gate 2 yields: an environment that builds and is as its test says."""

    environment: Environment
    initial_test: str
    keep_ports: tuple[int, ...] = ()
    image: Image


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Builds and tests one reply. An image that fails is removed again."""

    config: Config
    backend: Backend
    prompts: PromptSet

    def __call__(self, reply: str) -> Built | Complaint:
        """Raises ReplyError, EngineError."""
        found = sections(reply, ("setup", "initial_test"), ("start", "health", "keep"))
        health = HealthCheck(command=found["health"]) if "health" in found else None
        keep_ports = ports(found["keep"]) if "keep" in found else ()
        environment = Environment(setup=found["setup"], start=found.get("start", ""), health=health)
        image = self.backend.build(environment, timeout=self.config.sandbox.build_seconds)
        if isinstance(image, BuildFailure):
            return self._complain(Reason.BUILD_TIMEOUT if image.timed_out else Reason.BUILD_FAILED, image.log)
        test = found["initial_test"]
        verdict = test_untouched(self.config, self.backend, image, test, keep_ports)
        if verdict.outcome is Outcome.PASS:
            return Built(environment=environment, initial_test=test, keep_ports=keep_ports, image=image)
        self.backend.remove_image(image)
        ran = verdict.reason not in NOT_RUNNABLE
        return self._complain(Reason.INITIAL_TEST_FAILED if ran else Reason.INITIAL_TEST_INVALID, verdict.log)

    def _complain(self, reason: Reason, log: str) -> Complaint:
        return complaint(self.config, self.prompts, reason, log)


def test_untouched(config: Config, backend: Backend, image: Image, test: str, keep_ports: tuple[int, ...]) -> Verdict:
    """Run a test in a fresh sandbox in which nothing was done. Raises EngineError."""
    with backend.start(image) as sandbox:
        return verify(sandbox, backend.grader, test, timeout=config.sandbox.verifier_seconds, keep_ports=keep_ports)


def complaint(config: Config, prompts: PromptSet, reason: Reason, log: str, advice: str = "") -> Complaint:
    """What goes back to the model: the reason in words and the end of the real log."""
    limit = config.generate.log_tokens * CHARS_PER_TOKEN
    tail = log if len(log) <= limit else "[...]\n" + log[-limit:]
    return Complaint(reason, prompts.render("feedback", meaning=MEANING[reason], log=tail.strip(), advice=advice))
