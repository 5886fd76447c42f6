"""The gates of generate on a task about a service: health check, kept ports, tests that ask it."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from runner.domain.task import HealthCheck
from runner.phases.generate import environment, final
from runner.phases.generate.environment import Built
from runner.phases.generate.final import Checked
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Complaint
from runner.prompts import PromptSet
from runner.sandbox.base import Backend
from runner.sandbox.local import LocalBackend
from runner.schema import Config, Sandbox

pytestmark = [pytest.mark.local, pytest.mark.live]

PROMPTS = Path(environment.__file__).with_name("prompts")
ASK = """
import urllib.request

def page():
    with urllib.request.urlopen("http://127.0.0.1:8080/page", timeout=5) as answer:
        return answer.read().decode().strip()
"""
ENVIRONMENT = f"""
<setup>
mkdir /home/user/www; echo draft >/home/user/www/page
</setup>
<start>
cd ~/www; python3 -m http.server 8080 --bind 127.0.0.1 >~/log 2>&1 &
</start>
<health>
curl -sf http://127.0.0.1:8080/page
</health>
<keep>
8080
</keep>
<initial_test>
{ASK}
def test_draft():
    assert page() == "draft"
</initial_test>
"""
FINAL = f"<final_test>\n{ASK}\ndef test_final():\n    assert page() == 'final'\n</final_test>"


@pytest.fixture(scope="module")
def backend(local_ok: str, session_cache: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(Sandbox(backend="local"), session_cache, "tests")
    yield made
    made.close()


def build(backend: Backend, reply: str) -> Built | Complaint:
    judge = environment.Judge(config=Config(), backend=backend, prompts=PromptSet.open(PROMPTS, "default"))
    return judge(reply)


def test_a_task_about_a_service_passes_the_gates(backend: LocalBackend) -> None:
    built = build(backend, ENVIRONMENT)
    assert isinstance(built, Built), built
    assert built.keep_ports == (8080,)
    assert built.environment.health is not None
    prompts = PromptSet.open(PROMPTS, "default")
    for solution, outcome in (("echo final >~/www/page", Checked), ("kill %1; pkill python3", Complaint)):
        judge = final.Judge(config=Config(), backend=backend, prompts=prompts, built=built, solution=solution)
        assert isinstance(judge(FINAL), outcome)


def test_a_service_that_does_not_get_healthy_goes_back_with_what_the_check_said(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "HealthCheck", partial(HealthCheck, retries=2))  # not half a minute
    complaint = build(backend, ENVIRONMENT.replace("curl -sf", "echo still not there; exit 3; curl"))
    assert isinstance(complaint, Complaint)
    assert complaint.reason is Reason.BUILD_FAILED
    assert "still not there" in complaint.feedback
    assert "the health check, tried 2 times" in complaint.feedback


def test_without_kept_ports_the_service_ends_before_the_tests(backend: LocalBackend) -> None:
    complaint = build(backend, ENVIRONMENT.replace("<keep>\n8080\n</keep>\n", ""))
    assert isinstance(complaint, Complaint)
    assert complaint.reason is Reason.INITIAL_TEST_FAILED
