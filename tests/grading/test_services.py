"""Tasks about services: a web server that the agent is to start, and a background service that it is to put right."""

from typing import TYPE_CHECKING

import pytest

from runner.domain.episode import Outcome
from runner.domain.task import Environment, HealthCheck, Task
from runner.grading.grade import grade
from runner.grading.oracle import run_oracle
from runner.grading.verify import Reason, Verdict, verify
from runner.sandbox.base import Image

if TYPE_CHECKING:
    from conftest import Engine

GET = """
import json
import time
import urllib.error
import urllib.request


def get(url):
    for _ in range(20):
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except urllib.error.URLError as error:
            assert isinstance(error.reason, ConnectionRefusedError), error
            time.sleep(0.1)
    raise AssertionError(f"nothing answers at {url}")
"""

WEB = Task(
    id="web",
    instruction="Serve the folder /home/user/site over HTTP on port 8080 of 127.0.0.1, and keep it running.",
    environment=Environment(setup="mkdir /home/user/site; echo '<h1>Hello</h1>' >/home/user/site/index.html"),
    final_test=GET
    + """

def test_the_page_is_served():
    assert get("http://127.0.0.1:8080/") == (200, "<h1>Hello</h1>\\n")


def test_what_is_not_there_is_not_served():
    assert get("http://127.0.0.1:8080/no-such-page")[0] == 404
""",
    keep_ports=(8080,),
    solution="cd ~/site; nohup python3 -m http.server 8080 --bind 127.0.0.1 >~/server.log 2>&1 &",
)

SERVICE = """
import http.server, json, os, signal

CONFIG = "/home/user/counter/config.json"
log = open("/home/user/counter/access.log", "a", buffering=1)


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, file=log)
        body = json.dumps(config).encode()
        self.send_response(200 if self.path == config["path"] else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def read(*_):
    global config
    with open(CONFIG) as file:
        config = json.load(file)


read()
signal.signal(signal.SIGHUP, read)
with open("/home/user/counter/pid", "w") as file:
    file.write(str(os.getpid()))
http.server.ThreadingHTTPServer(("127.0.0.1", 8125), Answer).serve_forever()
"""
COUNTER = Task(
    id="counter",
    instruction="The service on port 8125 answers at /old. Configure it to answer at /status (it rereads its config on "
    "SIGHUP), and keep it running.",
    environment=Environment(
        setup=f"""mkdir /home/user/counter; cd /home/user/counter; echo '{{"path": "/old"}}' >config.json
cat >service.py <<'E'
{SERVICE}
E
""",
        start="cd ~/counter; python3 service.py &",
        health=HealthCheck(command="curl -sf http://127.0.0.1:8125/old"),
    ),
    initial_test=GET + "\n\ndef test_old():\n    assert get('http://127.0.0.1:8125/old')[0] == 200\n",
    final_test=GET
    + """

def test_it_answers_at_the_new_path_only():
    status, body = get("http://127.0.0.1:8125/status")
    assert status == 200 and json.loads(body)["path"] == "/status"
    assert get("http://127.0.0.1:8125/old")[0] == 404


def test_it_writes_its_log():
    get("http://127.0.0.1:8125/probe-4711")
    with open("/home/user/counter/access.log") as log:
        assert "/probe-4711" in log.read().splitlines()
""",
    keep_ports=(8125,),
    solution="""sed -i 's|/old|/status|' ~/counter/config.json; kill -HUP $(cat ~/counter/pid)""",
)
WRONG = {
    WEB.id: {
        "nothing": ":",
        "an answer in a file": "echo '<h1>Hello</h1>' >~/answer",
        "another port": WEB.solution.replace("8080", "8081"),
        "another folder": WEB.solution.replace("~/site", "/tmp"),
        "a server that has ended": f"{WEB.solution}\nsleep 1; kill %1; wait",
        "a server that hangs": 'python3 -c \'import socket, time; s = socket.create_server(("127.0.0.1", 8080)); '
        "time.sleep(999)' >/dev/null 2>&1 &",
    },
    COUNTER.id: {
        "nothing": ":",
        "the config alone": COUNTER.solution.partition(";")[0],
        "a dead service": f"{COUNTER.solution}; kill $(cat ~/counter/pid)",
    },
}


def attempt(engine: "Engine", task: Task, commands: str) -> Verdict:
    """The verdict on an episode that ran ``commands``."""
    image = engine.backend.build(task.environment, timeout=300)
    assert isinstance(image, Image), image
    with engine.backend.start(image) as sandbox:
        ran = run_oracle(sandbox, commands, timeout=30)
        assert not ran.timed_out
        return grade(task, sandbox, engine.backend)


@pytest.mark.parametrize("task", [WEB, COUNTER], ids=lambda task: task.id)
def test_a_solution_gets_the_full_reward(engine: "Engine", task: Task) -> None:
    verdict = attempt(engine, task, task.solution)
    assert verdict.outcome is Outcome.PASS, verdict.log


@pytest.mark.parametrize(("task", "wrong"), [(task, name) for task in (WEB, COUNTER) for name in WRONG[task.id]])
def test_anything_else_gets_none(engine: "Engine", task: Task, wrong: str) -> None:
    verdict = attempt(engine, task, WRONG[task.id][wrong])
    assert verdict.outcome is Outcome.FAIL, verdict.log
    assert verdict.reason in (Reason.ASSERTION, Reason.ERROR), verdict.log


def test_a_service_of_the_tasks_runs_while_the_untouched_environment_is_tested(engine: "Engine") -> None:
    image = engine.backend.build(COUNTER.environment, timeout=300)
    assert isinstance(image, Image), image
    for ports, outcome in ((COUNTER.keep_ports, Outcome.PASS), ((), Outcome.FAIL)):
        with engine.backend.start(image) as sandbox:
            test = COUNTER.initial_test
            verdict = verify(sandbox, engine.backend.grader, test, timeout=30, keep_ports=ports)
        assert verdict.outcome is outcome, verdict.log
