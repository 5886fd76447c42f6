"""The UI on a store: it answers, shows artifacts, and leaves nothing behind."""

import json
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from support.reports import generate_report, run_info
from support.stores import Store, publish_all, tracker

from runner.domain.errors import UserError
from runner.tracking.address import default_uri
from runner.tracking.ui import serve

_SERVE = """
import sys
sys.path.insert(0, sys.argv[1])
from runner.tracking.ui import serve
serve(sys.argv[2], port=0, ready=lambda address: print(address, flush=True))
print("stopped", flush=True)
"""


def _get(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=20) as response:
        return bytes(response.read())


def _group_is_alive(group: int) -> bool:
    return any(
        (stat := _stat(entry)) and int(stat[2]) == group and stat[0] != "Z"
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
    )


def _stat(process: Path) -> list[str]:
    """State, parent, group ... of a process; empty when it is gone."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def test_serve_shows_a_store_with_its_artifacts_until_it_is_interrupted(outputs: Path, quiet: None) -> None:
    publish_all(tracker(outputs), run_info(outputs / "run"), generate_report(outputs / "g"))
    [parent] = Store(default_uri(outputs)).parents()
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, root, str(outputs)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().strip()
        query = urllib.parse.urlencode({"run_id": parent.info.run_id, "path": "generate/attrition.json"})
        assert json.loads(_get(f"{address}/get-artifact?{query}"))["columns"] == ["reason", "draws"]
        assert b"<title>MLflow</title>" in _get(address)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "stopped\n"
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
    assert children
    assert not any(_group_is_alive(int(child)) for child in children)


def test_a_folder_without_runs_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no runs are tracked at"):
        serve(tmp_path)


def test_a_taken_port_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match="choose another --port"):
            serve(tmp_path, port=taken.getsockname()[1])


def test_a_server_is_its_own_ui() -> None:
    seen: list[str] = []
    serve("http://mlflow.example:5000", ready=seen.append)
    assert seen == ["http://mlflow.example:5000"]
