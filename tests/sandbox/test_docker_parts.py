"""The parts of the Docker backend that need no engine."""

import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE
from urllib.parse import parse_qs, urlsplit

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.domain.errors import EngineError
from runner.sandbox.docker import process_table
from runner.sandbox.docker.attached import Attached, _Frames
from runner.sandbox.docker.engine import Engine, describe, find_address, passes
from runner.sandbox.docker.labels import is_orphan, owner
from runner.sandbox.docker.trouble import infrastructure
from runner.sandbox.reading import collect

WORLDS_FAULT = [
    "curl: (6) Could not resolve host: example.invalid",
    "E: Some index files failed to download. They have been ignored, or old ones used instead.",
    "Temporary failure resolving 'deb.debian.org'",
    "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution",
    "write /var/lib/x: no space left on device",
    "ERROR: failed to solve: toomanyrequests: You have reached your pull rate limit.",
    "ERROR: failed to solve: nosuch/image: failed to resolve source metadata for docker.io/nosuch/image:latest",
    "curl: (22) The requested URL returned error: 503",
]
SCRIPTS_FAULT = [
    "bash: line 1: foo: command not found",
    "ERROR: No matching distribution found for nosuchpackage",
    "E: Unable to locate package nosuch",
    "curl: (22) The requested URL returned error: 404",
    "useradd: user 'user' already exists",
    "",
]


@pytest.mark.parametrize("log", WORLDS_FAULT)
def test_a_log_that_shows_the_worlds_fault_is_recognised(log: str) -> None:
    assert infrastructure(f"some step\n{log}\nexit code: 1")


@pytest.mark.parametrize("log", SCRIPTS_FAULT)
def test_a_log_that_shows_the_scripts_fault_is_left_to_it(log: str) -> None:
    assert infrastructure(f"some step\n{log}\nexit code: 1") == ""


def test_without_a_network_wanting_one_is_the_scripts_fault_but_a_full_disk_is_not() -> None:
    assert infrastructure("Could not resolve host: x", network=False) == ""
    assert infrastructure("no space left on device", network=False)


@given(st.lists(st.binary(max_size=50), max_size=10), st.integers(1, 30))
def test_the_engines_frames_are_put_together_however_they_are_cut(payloads: list[bytes], step: int) -> None:
    raw = b"".join(b"\x01\0\0\0" + len(payload).to_bytes(4, "big") + payload for payload in payloads)
    frames = _Frames()
    assert b"".join(frames.feed(raw[at : at + step]) for at in range(0, len(raw), step)) == b"".join(payloads)


def test_a_living_owner_is_no_orphan_and_a_reused_process_id_is() -> None:
    host, pid, started = owner().rsplit(":", 2)
    assert not is_orphan(owner())
    assert is_orphan(f"{host}:{pid}:{float(started) - 100}")
    assert is_orphan(f"{host}:4194300:{started}")


@pytest.mark.parametrize("label", ["", "x", "a:b:c", "elsewhere:1:1.0", f"{socket.gethostname()}:x:y"])
def test_what_is_not_known_to_be_dead_is_left_alone(label: str) -> None:
    assert not is_orphan(label)


def test_the_engines_address_comes_from_the_environment_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere/docker.sock")
    assert find_address() == "unix:///somewhere/docker.sock"


class TestWhatRunsOfAContainer:
    """Told from the process table, where a process called like the engine is in it: here this very one."""

    ID = "7e" * 32

    @pytest.fixture(autouse=True)
    def engine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process_table, "_ENGINE", psutil.Process().name())

    @contextmanager
    def running(self, program: Path | str, script: str) -> Iterator[None]:
        with subprocess.Popen([program, "-c", f"{script}; echo; read _", self.ID], stdin=PIPE, stdout=PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield
            process.communicate(b"\n")

    @pytest.fixture
    def holder(self, tmp_path: Path) -> Path:
        path = tmp_path / "containerd-shim-runc-v2"
        path.symlink_to("/bin/bash")
        return path

    def test_nothing(self) -> None:
        assert not process_table.may_run("unix:///x", self.ID)

    def test_a_program_that_makes_it(self) -> None:
        with self.running("/bin/bash", ":"):
            assert process_table.may_run("unix:///x", self.ID)

    def test_a_holder_of_nothing_does_not_count(self, holder: Path) -> None:
        with self.running(holder, ":"):
            assert not process_table.may_run("unix:///x", self.ID)

    def test_unless_it_has_held_something(self, holder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(process_table, "_CGROUPS", tmp_path)
        (tmp_path / "system.slice" / f"docker-{self.ID}.scope").mkdir(parents=True)
        with self.running(holder, ":"):
            assert process_table.may_run("unix:///x", self.ID)

    def test_a_holder_of_something_does(self, holder: Path) -> None:
        with self.running(holder, "sleep 60 & trap 'kill %1' EXIT"):
            assert process_table.may_run("unix:///x", self.ID)

    def test_elsewhere_it_cannot_be_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert process_table.may_run("tcp://elsewhere:2376", self.ID)
        monkeypatch.setattr(process_table, "_ENGINE", "nosuchengine")
        assert process_table.may_run("unix:///x", self.ID)


class Faulty(BaseHTTPRequestHandler):
    """An engine that says its version and then does to every other request what its path names."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(200, {"ApiVersion": "1.45"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        fault = parse_qs(urlsplit(self.path).query)["name"][0]
        if fault == "drop":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            return
        status, _, message = fault.partition("-")
        self._answer(int(status), {"message": message.replace("-", " ")})

    def _answer(self, status: int, body: dict[str, str]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[Engine]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        engine = Engine(f"tcp://127.0.0.1:{server.server_port}")
        yield engine
        engine.close()
        server.shutdown()
        serving.join()


@pytest.fixture(scope="module")
def faulty() -> Iterator[Engine]:
    with answering(Faulty) as engine:
        yield engine


@pytest.mark.parametrize(
    ("fault", "worth_it"),
    [
        ("500-cannot-start-the-container", True),
        ("503-busy", True),
        ("drop", True),
        ("500-no-space-left-on-device", False),
        ("404-no-such-image", False),
        ("409-conflict", False),
    ],
)
def test_a_start_is_worth_another_try_after_trouble_that_passes(faulty: Engine, fault: str, worth_it: bool) -> None:
    with pytest.raises(EngineError) as raised, faulty.trouble("create a container"):
        faulty.client.api.create_container("image", name=fault)
    assert passes(raised.value) is worth_it


class Quick(Faulty):
    """An engine whose programs write before the headers of the answer are read."""

    def do_GET(self) -> None:
        self._answer(200, {"ApiVersion": "1.45", "Running": False, "ExitCode": 3})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.endswith("/start"):
            self._answer(201, {"Id": "x"})
            return
        frames = b"".join(b"\x01\0\0\0" + len(text).to_bytes(4, "big") + text for text in (b"first ", b"last"))
        self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + frames[:20])
        time.sleep(0.2)
        self.wfile.write(frames[20:])
        self.close_connection = True


@pytest.mark.timeout(60)
def test_nothing_is_lost_of_a_program_that_writes_at_once() -> None:
    with answering(Quick) as engine:
        attached = Attached(engine, "c", ["x"], user="0", cwd="/", env={})
        assert collect(attached, 10, 100) == (b"first last", "")
        assert attached.exit_code() == 3
        attached.close()


def test_a_start_is_not_tried_again_where_no_engine_is(tmp_path: Path) -> None:
    gone = Engine(f"unix://{tmp_path}/no.sock")
    with pytest.raises(EngineError) as raised:
        gone.client.ping()
    assert not passes(raised.value)


def test_a_full_disk_is_named_with_its_remedy() -> None:
    text = describe("keep an image", "unix:///x", OSError("write: no space left on device"))
    assert "docker system df" in text
