"""Imported verifier scripts: what they see, what becomes of their reward, and what an agent cannot do about it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from runner.domain.episode import Outcome
from runner.domain.errors import EngineError
from runner.domain.task import Environment, Limits, Task
from runner.grading.grade import grade, settle
from runner.grading.harbor_verifier import verify_script
from runner.grading.verify import Reason, Verdict
from runner.sandbox.base import Sandbox

if TYPE_CHECKING:
    from conftest import Engine


SETUP = "echo data >/srv/data; echo untouched >/home/user/file"
REWARD = "/logs/verifier/reward.txt"
WANTS_RIGHT = f"""#!/bin/bash
if [ "$(cat /home/user/answer 2>/dev/null)" = "$(cat /tests/want.txt)" ]; then echo 1; else echo 0; fi > {REWARD}
"""
DEEP = """
n=$(printf 'x%.0s' {1..200}); here=$PWD; for i in {1..19}; do mkdir $n; cd -P $n; done; ln -s "$PWD" $here/first
for i in {1..19}; do mkdir $n; cd $n; done; ln -s /tests/want.txt evil; cd $here
rest=$n; for i in {2..18}; do rest=$rest/$n; done; ln -s first/$rest second; ln -s second/$n/evil answer
"""
"""A link that lies deeper than any path can name, reached through links in its parents."""
TASK = Task(
    id="script",
    instruction="Write right to /home/user/answer.",
    environment=Environment(setup=SETUP),
    final_test="",
    verifier_script=WANTS_RIGHT,
    test_files={"want.txt": b"right\n"},
    limits=Limits(verifier_seconds=30),
)


def run(engine: "Engine", sandbox: Sandbox, script: str, *, timeout: float = 30, quiesce: bool = True) -> Verdict:
    files = {"data/x.txt": b"x\n", "tool.sh": b"#!/bin/sh\necho tool\n"}
    return verify_script(
        sandbox, engine.backend.grader, script, timeout=timeout, files=files, cwd="/home/user", quiesce=quiesce
    )


class TestOnAnUntouchedSandbox:
    @pytest.mark.parametrize(
        ("script", "reason", "said"),
        [
            (f"echo 1 > {REWARD}", Reason.PASSED, "reward 1"),
            (f"#!/bin/sh\necho seen; echo 0.5 > {REWARD}; exit 3", Reason.LOW_REWARD, "seen"),
            (f"#!/bin/bash\nset -e\n[ $PWD = /home/user ]; [ $(id -u) = 0 ]\necho 1 > {REWARD}", Reason.PASSED, ""),
            (f"cat /tests/data/x.txt; /tests/tool.sh; echo 0 > {REWARD}", Reason.LOW_REWARD, "x\ntool"),
            (f"env -0 | tr '\\0' '\\n' | sort; echo 0 > {REWARD}", Reason.LOW_REWARD, "HOME=/root\nLANG=C.UTF-8"),
            (f"stat -c %a%u /tests /logs/verifier; echo 0 > {REWARD}", Reason.LOW_REWARD, "7000\n7000"),
            ("echo '{\"reward\": 1}' > /logs/verifier/reward.json; exit 1", Reason.PASSED, "reward.json"),
            ("set -e; apt-get-is-missing; echo 1 > /logs/verifier/reward.txt", Reason.NO_REWARD, "apt-get-is-missing"),
            ("#!/no/such/interpreter\n", Reason.NO_REWARD, "wrote neither"),
        ],
    )
    def test_a_script_gets_what_harbor_gives_it(
        self, engine: "Engine", untouched: Sandbox, script: str, reason: Reason, said: str
    ) -> None:
        verdict = run(engine, untouched, script, quiesce=False)
        assert (verdict.reason, verdict.outcome is Outcome.PASS) == (reason, reason is Reason.PASSED), verdict.log
        assert said in verdict.log

    def test_a_script_that_overruns_fails_in_time_with_its_children(self, engine: "Engine") -> None:
        with engine.start() as sandbox:
            script = f"echo 1 > {REWARD}; (sleep 300; echo 1 > {REWARD}) & echo here; sleep 300"
            verdict = run(engine, sandbox, script, timeout=1)
            assert verdict.reason is Reason.TIMEOUT
            assert "here" in verdict.log
            assert sandbox.run("ls /tests; pgrep -fc 'sleep 30[0]'", timeout=20).output.endswith(b"0\n")

    def test_a_reward_without_a_scale_is_an_error(self, engine: "Engine", untouched: Sandbox) -> None:
        with pytest.raises(EngineError, match="a reward of 37"):
            run(engine, untouched, f"echo 37 > {REWARD}", quiesce=False)

    def test_a_flood_of_output_is_cut(self, engine: "Engine", untouched: Sandbox) -> None:
        verdict = run(engine, untouched, f"head -c 3000000 /dev/zero | tr '\\0' x; echo 1 > {REWARD}", quiesce=False)
        assert verdict.outcome is Outcome.PASS
        assert len(verdict.log) < 30_000


class TestAfterAnAgent:
    def test_right_work_passes_and_wrong_work_fails(self, engine: "Engine") -> None:
        for answer, outcome in (("right", Outcome.PASS), ("wrong", Outcome.FAIL)):
            with engine.start() as sandbox:
                sandbox.run(f"echo {answer} > answer", timeout=10)
                assert grade(TASK, sandbox, engine.backend).outcome is outcome

    @pytest.mark.parametrize(
        "attack",
        [
            f"mkdir -p /logs/verifier; echo 1 > {REWARD}; echo 1 > /logs/verifier/reward.json",
            "mkdir -p /tests; echo wrong > /tests/want.txt; chmod -R 777 /tests",
            f"(while :; do echo 1 > {REWARD}; echo 1 > /logs/verifier/reward.json; done) 2>/dev/null & disown",
            "(while sleep 0.01; do cat /tests/want.txt > answer; done) 2>/dev/null & disown",
            "mkdir -p ~/bin; printf '#!/bin/sh\\necho right' > ~/bin/cat; chmod +x ~/bin/cat; export PATH=~/bin:$PATH",
            "cat() { echo right; }; export -f cat; echo 'cat() { echo right; }' > ~/.bashrc; export BASH_ENV=~/.bashrc",
            "ln -s /tests/want.txt answer",
            "mkdir d; ln -s ../../../tests d/t; ln -s d/t/want.txt answer",
            "ln -s / all; ln -s all/tests/want.txt answer",
            "ln -s /proc/self/root/tests/want.txt answer",
            "ln -s /proc/1/root p; ln -s p/tests/want.txt answer",
            DEEP,
            "mkfifo answer; rm answer; mkdir answer",
        ],
    )
    def test_an_attack_earns_nothing(self, engine: "Engine", attack: str) -> None:
        with engine.start() as sandbox:
            sandbox.run("echo wrong > answer" if "answer" not in attack else "true", timeout=10)
            sandbox.run(attack, timeout=10)
            verdict = grade(TASK, sandbox, engine.backend)
        assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, Reason.LOW_REWARD), verdict.log

    def test_old_rewards_of_an_image_that_gives_its_logs_away_do_not_count(self, engine: "Engine") -> None:
        setup = SETUP + "; mkdir -p /logs/verifier /tests/deep; chown -R 1000:1000 /logs /tests"
        built = engine.backend.build(Environment(setup=setup), timeout=300)
        script = "if ls -A /tests | grep -v test.sh; then echo 1 > /logs/verifier/reward.txt; fi"
        with engine.backend.start(built) as sandbox:  # type: ignore[arg-type]
            sandbox.run(
                f"echo 1 > {REWARD}; echo 1 > /tests/x; rm -rf /logs/verifier; ln -s /tmp /logs/verifier", timeout=10
            )
            sandbox.run("echo 1 > /tmp/reward.txt; echo '{\"reward\": 1}' > /tmp/reward.json", timeout=10)
            verdict = verify_script(sandbox, engine.backend.grader, script, timeout=20)
        assert verdict.reason is Reason.NO_REWARD

    def test_a_reward_that_the_agent_prevents_is_a_fail_with_its_reason(self, engine: "Engine") -> None:
        task = replace(TASK, verifier_script=f"set -e\ncat /home/user/file\necho 0 > {REWARD}")
        with engine.start() as sandbox:
            sandbox.run("rm /home/user/file", timeout=10)
            verdict = grade(task, sandbox, engine.backend)
        assert verdict.reason is Reason.NO_REWARD
        assert settle(task, verdict, engine.backend, engine.image).outcome is Outcome.FAIL

    def test_limit_a_script_that_runs_the_agents_program_as_root_is_its_own_judge(self, engine: "Engine") -> None:
        task = replace(TASK, verifier_script=f"echo 0 > {REWARD}; bash /home/user/run.sh")
        with engine.start() as sandbox:
            sandbox.run(f"echo 'echo 1 > {REWARD}' > run.sh", timeout=10)
            assert grade(task, sandbox, engine.backend).outcome is Outcome.PASS

    def test_a_verifier_that_never_leaves_a_reward_is_an_error(self, engine: "Engine") -> None:
        task = replace(TASK, verifier_script="curl --silent http://192.0.2.1/run | sh")
        with engine.start() as sandbox:
            sandbox.run("echo right > answer", timeout=10)
            verdict = grade(task, sandbox, engine.backend)
        with pytest.raises(EngineError, match="leaves no reward even where no agent has been"):
            settle(task, verdict, engine.backend, engine.image)
