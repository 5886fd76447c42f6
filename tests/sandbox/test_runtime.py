"""The grader's Python: complete, self-contained, and built once however many ask for it."""

import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runner.sandbox.runtime import _search_path_last, ensure_runtime, python_argv

USES = ["pytest", "tarfile", "subprocess", "json", "hashlib", "ssl", "sqlite3", "ctypes", "lzma", "bz2", "zlib"]
USES += ["pwd", "grp", "stat", "csv", "decimal", "asyncio"]
BUILD = "import sys, pathlib; from runner.sandbox.runtime import *; print(ensure_runtime(pathlib.Path(sys.argv[1])))"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_runtime(tmp_path_factory.mktemp("cache"))


def python(runtime: Path, code: str) -> str:
    argv = [*python_argv(runtime), "-c", f"import sys; sys.path.append({str(runtime / 'site')!r}); {code}"]
    return subprocess.run(argv, env={}, capture_output=True, text=True, check=True).stdout


def test_modules_that_tests_use_come_from_the_runtime(runtime: Path) -> None:
    files = python(
        runtime,
        f"import {', '.join(USES)}; print(*(m.__file__ for m in list(sys.modules.values()) "
        "if getattr(m, '__file__', None)), sep='\\n')",
    ).split()
    assert len(files) > len(USES)
    assert [file for file in files if not file.startswith(str(runtime))] == []


def test_libraries_come_from_the_runtime(runtime: Path) -> None:
    maps = python(runtime, "import ssl, sqlite3, ctypes, lzma; print(open('/proc/self/maps').read())")
    loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    assert loaded
    assert [path for path in loaded if path.startswith("/") and not path.startswith(str(runtime))] == []


def test_it_knows_users_and_groups(runtime: Path) -> None:
    assert python(runtime, "import pwd, grp; print(pwd.getpwuid(0).pw_name, grp.getgrgid(0).gr_name)") == "root root\n"


def test_it_ignores_the_environment_and_the_working_directory(runtime: Path, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    argv = [*python_argv(runtime), "-c", "import json; print('clean')"]
    done = subprocess.run(argv, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "clean\n")


def test_everybody_may_read_it_and_only_its_owner_may_write(runtime: Path) -> None:
    for path in (runtime, *runtime.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o444 == 0o444, path
        assert mode & 0o022 == 0, path


def test_concurrent_callers_get_one_runtime(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        runs = list(
            pool.map(
                lambda _: subprocess.run(
                    [sys.executable, "-c", BUILD, str(tmp_path)], capture_output=True, text=True, check=True
                ),
                range(3),
            )
        )
    assert len({run.stdout for run in runs}) == 1
    assert [path.name for path in (tmp_path / "grader").iterdir() if path.suffix == ".partial"] == []


def test_a_killed_build_is_started_over(tmp_path: Path) -> None:
    victim = subprocess.Popen([sys.executable, "-c", BUILD, str(tmp_path)], start_new_session=True)
    while not list((tmp_path).glob("grader/*.partial/bin")):
        assert victim.poll() is None
        time.sleep(0.005)
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    runtime = ensure_runtime(tmp_path)
    assert python(runtime, "import pytest; print('whole')") == "whole\n"
    assert list((tmp_path / "grader").glob("*.partial")) == []


def test_a_built_in_search_path_never_beats_ours(tmp_path: Path) -> None:
    program = tmp_path / "program"
    rpath = (
        subprocess.run(
            ["cc", "-x", "c", "-", "-o", program, f"-Wl,-rpath,{tmp_path},--disable-new-dtags"],
            input="int main(void) { return 0; }",
            text=True,
            capture_output=True,
        )
        if _has("cc")
        else None
    )
    if rpath is None or rpath.returncode:
        pytest.skip("no C compiler here")
    assert b"RPATH" in _dynamic(program)
    _search_path_last(program)
    assert b"RUNPATH" in _dynamic(program)
    assert subprocess.run([program]).returncode == 0


def _has(program: str) -> bool:
    return any((Path(folder) / program).exists() for folder in os.environ["PATH"].split(":"))


def _dynamic(program: Path) -> bytes:
    return subprocess.run(["readelf", "-d", program], capture_output=True, check=True).stdout
