"""The sandbox benchmark runs, its drivers are whole, and its table says what was recorded."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.sandbox_setup import TOOLS
from benchmarks.sandbox_table import published, render

HERE = Path(__file__).resolve().parent


def _burst(tool: str, at: int, **figures: Any) -> dict[str, Any]:
    return {"tool": tool, "do": "burst", "at": at, "round": 0, **figures}


RECORDED = {
    "machine": "2 cores",
    "reference": "ours: docker",
    "records": [
        {"tool": "too new", "do": "set-up", "at": None, "error": "needs Python 3.12"},
        _burst("ours: docker", 1, start=[0.2, 0.3], command=[0.0002, 0.0003, 0.0001], per_second=5000.0, grade=[0.6]),
        _burst("ours: docker", 1, start=[0.1], command=[0.0002], per_second=4000.0, grade=[0.7]),
        _burst("ours: docker", 8, start=[0.8], command=[0.001], per_second=6000.0, paced=[0.0005], grade=[2.0]),
        _burst("slow", 1, start=[0.3], command=[0.06], per_second=15.0, grade=[0.4], left=2),
        _burst("slow", 8, error="TimeoutError: gave up"),
        {"tool": "ours: docker", "do": "steady", "at": 8, "round": 0, "waits": [0.01, 0.03, -0.001]},
    ],
}


def test_every_tool_has_a_driver_that_can_be_compiled_and_an_exact_version() -> None:
    for tool in TOOLS:
        ast.parse((HERE / "peers" / f"{tool.driver}.py").read_text("utf-8"))
        assert not tool.requirement or "==" in tool.requirement
    drivers = {path.stem for path in (HERE / "peers").glob("*.py")} - {"protocol", "measuring"}
    assert drivers == {tool.driver for tool in TOOLS}


def test_the_table_has_medians_ratios_and_the_reason_for_every_gap() -> None:
    lines = render(RECORDED).splitlines()
    assert "| ours: docker | 200 / 800 | 0.2 / 1 | 4500 / 6000 | - / 0.5 | 650 / 2000 |" in lines
    assert "| slow | 300 / - | 60 / - | 15 / - | - | 400 / - |" in lines
    assert "| slow | 1.5 / - | 300 / - | 300 / - | - | 0.62 / - |" in lines
    assert "| ours: docker | - / 10 | - / 30 |" in lines
    assert "| one command: the fastest other / ours, at least 100 | 300 / - |" in lines
    assert "* slow at 8 (burst): TimeoutError: gave up" in lines
    assert "* slow at 1 left 2 containers behind, which were removed." in lines
    assert "* too new (set-up): needs Python 3.12" in lines


def test_publishing_replaces_what_is_between_the_marks_and_nothing_else() -> None:
    page = "before\n<!-- benchmark: begin -->\nold\n<!-- benchmark: end -->\nafter\n"
    assert published(page, "new\n") == page.replace("old", "new")
    with pytest.raises(ValueError, match="no lines"):
        published("a page", "new")


def test_the_sandboxes_page_has_a_place_for_the_table() -> None:
    page = (HERE.parents[1] / "sandboxes" / "README.md").read_text("utf-8")
    assert "python tests/benchmarks/sandbox.py" in page
    assert published(page, "new") != page


@pytest.mark.docker
@pytest.mark.live
def test_a_small_benchmark_measures_ours_and_the_sdk_and_leaves_nothing(
    docker_address: str, session_cache: Path, tmp_path: Path
) -> None:
    out = tmp_path / "results.json"
    size = ["--backends=docker", "--peers=", "--concurrency=1", "--rounds=1", "--seconds=0.1"]
    done = subprocess.run(
        [sys.executable, str(HERE / "sandbox.py"), *size, f"--cache={session_cache}", f"--out={out}"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    records = {(record["tool"], record["do"]): record for record in json.loads(out.read_text())["records"]}
    for tool in ("ours: docker", "docker SDK 7"):
        burst = records[tool, "burst"]
        assert not {"error", "left"} & set(burst), burst
        assert min(len(burst[kind]) for kind in ("start", "command", "paced", "grade")) >= 1
        assert len(records[tool, "steady"]["waits"]) == 3
    assert "| ours: docker | " in done.stdout
