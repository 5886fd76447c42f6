"""An exported folder alone is enough: stock Docker builds it, and its own test.sh grades it without a network."""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from runner.domain.task import Environment, Task
from runner.phases.dataset.harbor import export_harbor
from runner.share import share_dir

pytestmark = [pytest.mark.docker, pytest.mark.live]

FINAL = """
def test_total():
    with open('/home/user/total') as file:
        assert file.read().strip() == '6'
"""
TASK = Task(
    id="sum",
    instruction="Write the sum of /home/user/numbers to /home/user/total.",
    environment=Environment(setup="seq 3 > /home/user/numbers\nmkdir -m 700 /srv/secret\n"),
    final_test=FINAL,
    truth="the answer is 6",
    solution="paste -sd+ ~/numbers | bc > ~/total || echo 6 > ~/total\n",
)

Docker = Callable[..., str]


@pytest.fixture
def docker(docker_address: str) -> Docker:
    def call(*arguments: str, check: bool = True) -> str:
        env = {**os.environ, "DOCKER_HOST": docker_address}
        done = subprocess.run(["docker", *arguments], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout + done.stderr

    return call


@contextmanager
def container(docker: Docker, task: Task, folder: Path) -> Iterator[Docker]:
    """A container of the exported task, started as Harbor starts it, with its tests uploaded."""
    base = (share_dir("sandboxes") / "base" / "Dockerfile").read_text(encoding="utf-8")
    export_harbor([task], folder, base_dockerfile=base)
    name = f"endless-export-test-{uuid.uuid4().hex[:12]}"
    docker("build", "--network", "host", "--tag", name, str(folder / task.id / "environment"))
    try:
        docker("run", "--detach", "--network", "none", "--name", name, name, "sh", "-c", "sleep infinity")
        docker("cp", str(folder / task.id / "tests"), f"{name}:/tests")

        def execute(user: str, *argv: str, check: bool = True) -> str:
            return docker("exec", "--user", user, name, *argv, check=check)

        yield execute
    finally:
        docker("rm", "--force", "--volumes", name, check=False)
        docker("rmi", "--force", name, check=False)


def grade(execute: Docker) -> str:
    execute("root", "bash", "/tests/test.sh", check=False)
    return execute("root", "cat", "/logs/verifier/reward.txt").strip()


def test_untouched_gets_0_and_the_solution_gets_1(docker: Docker, tmp_path: Path) -> None:
    with container(docker, TASK, tmp_path) as execute:
        assert grade(execute) == "0"
        execute("user", "bash", "-c", TASK.solution)
        assert grade(execute) == "1"


def test_a_stale_or_forged_reward_does_not_survive_a_test_that_cannot_run(docker: Docker, tmp_path: Path) -> None:
    with container(docker, replace(TASK, final_test="def broken(:\n"), tmp_path) as execute:
        execute("root", "bash", "-c", "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt")
        assert grade(execute) == "0"


def test_a_skipped_test_is_not_a_pass(docker: Docker, tmp_path: Path) -> None:
    skipped = "import pytest\n@pytest.mark.skip\ndef test_nothing(): ...\n"
    with container(docker, replace(TASK, final_test=skipped), tmp_path) as execute:
        assert grade(execute) == "0"


def test_the_agents_files_do_not_reach_the_verifier(docker: Docker, tmp_path: Path) -> None:
    cheat = """
    cd ~; mkdir -p .local/bin; printf '#!/bin/sh\\nexit 0\\n' | tee .local/bin/pytest > .local/bin/python3
    chmod +x .local/bin/*
    echo 'import os; os._exit(0)' | tee conftest.py sitecustomize.py usercustomize.py > pytest.py
    echo 'export PATH=~/.local/bin:$PATH PYTHONPATH=~ PYTEST_ADDOPTS=--co' >> .bashrc
    (while true; do echo 6 > ~/total; sleep 0.01; rm -f ~/total; done) >/dev/null 2>&1 &
    """
    with container(docker, TASK, tmp_path) as execute:
        execute("user", "bash", "-c", cheat)
        assert grade(execute) in ("0", "1")  # the loop may be caught at either moment, but it is over now
        assert "sleep 0.01" not in execute("root", "ps", "-ef")


def test_programs_that_a_test_starts_run_as_the_agent_in_its_home(docker: Docker, tmp_path: Path) -> None:
    final = """
import os, subprocess, tempfile

def test_who(tmp_path):
    assert os.getuid() == 0
    assert subprocess.check_output(['id', '-un'], text=True) == 'user\\n'
    assert os.system('touch ' + str(tmp_path / 'a') + ' ' + tempfile.mkdtemp() + '/b $HOME/c') == 0
    assert os.stat('/home/user/c').st_uid == 1000
    assert os.getcwd() == '/home/user'
"""
    with container(docker, replace(TASK, final_test=final), tmp_path) as execute:
        assert grade(execute) == "1"


def test_services_start_with_the_container_as_the_agent(docker: Docker, tmp_path: Path) -> None:
    environment = replace(TASK.environment, start="id -un > ~/started; sleep 4321 &\n")
    with container(docker, replace(TASK, environment=environment), tmp_path) as execute:
        execute(
            "root", "bash", "-c", "for i in $(seq 50); do [ -s /home/user/started ] && exit; sleep 0.1; done; exit 1"
        )
        assert execute("user", "cat", "/home/user/started").strip() == "user"
        grade(execute)
        assert "sleep 4321" in execute("root", "ps", "-ef")


WEB = replace(
    TASK,
    environment=Environment(setup="mkdir /home/user/www; echo hello >/home/user/www/page"),
    keep_ports=(8080,),
    final_test="""
import subprocess, urllib.request

def test_page(tmp_path):
    with urllib.request.urlopen("http://127.0.0.1:8080/page", timeout=5) as answer:
        assert answer.read() == b"hello\\n"
    script = tmp_path / "script.sh"
    script.write_text("touch $(dirname $0)/done; id -u")
    assert subprocess.check_output(["bash", script], text=True) == "65534\\n"
""",
)


def test_a_service_that_the_task_keeps_is_asked_and_all_else_ends(docker: Docker, tmp_path: Path) -> None:
    with container(docker, WEB, tmp_path) as execute:
        assert grade(execute) == "0"
        serve = "cd ~/www; python3 -m http.server 8080 >/dev/null 2>&1 & setsid sleep 4322 & sleep 1"
        execute("user", "bash", "-c", serve)
        assert grade(execute) == "1"
        left = execute("root", "ps", "-ef")
        assert "http.server 8080" in left
        assert "sleep 4322" not in left
        assert "sleep infinity" in left


def test_the_image_holds_nothing_hidden(docker: Docker, tmp_path: Path) -> None:
    with container(docker, TASK, tmp_path) as execute:
        found = execute("root", "bash", "-c", "ls -a /; grep -rl 'answer is 6' / --include='*.md' 2>/dev/null; true")
        assert "truth" not in found
        assert ".endless-setup" not in found
