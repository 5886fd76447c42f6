"""``vllm serve`` as a process of ours, played by the loopback server: started once, awaited, never left behind."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from support.loopback import Loopback
from support.models import ask

from runner import schema
from runner.domain.errors import MissingRequirement, ProviderError, RecipeError
from runner.llm.server import VllmServer
from runner.llm.vllm import VllmClient, running

STAND_IN = [sys.executable, str(Path(__file__).parents[1] / "support" / "loopback.py")]


def model(**more: object) -> schema.Model:
    settings = replace(schema.Vllm(command=STAND_IN, start_seconds=60.0), **more)  # type: ignore[arg-type]
    return schema.Model(provider=schema.Provider.vllm, name="tiny", max_retries=0, timeout_seconds=10, vllm=settings)


def processes_with(word: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if word in (process.info["cmdline"] or []):
            found.append(process)
    return found


def gone(word: str, seconds: float = 20.0) -> bool:
    return eventually(lambda: not processes_with(word), seconds)


def eventually(check: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.05)
    return False


def test_the_server_starts_at_the_first_call_once_for_all_threads_and_stops_on_close(tmp_path: Path) -> None:
    mark = f"--mark={tmp_path}"
    made = model(args=[mark])
    client = VllmClient(made, VllmServer(made, tmp_path / "logs" / "vllm.log"), None, role="solver")
    assert processes_with(mark) == []
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda i: client.complete(ask(last=str(i))).text, range(8)))
    assert texts == [f"echo: {i}" for i in range(8)]
    assert (tmp_path / "logs" / "vllm.log").read_text().count("loading the weights of tiny") == 1
    client.close()
    client.close()
    assert processes_with(mark) == []
    with pytest.raises(ProviderError, match="is closed"):
        client.complete(ask())


def test_a_server_that_dies_at_the_start_is_reported_with_its_last_words_and_not_tried_again(tmp_path: Path) -> None:
    with VllmServer(model(args=["--die"]), tmp_path / "log", role="solver") as server:
        for _ in range(2):
            with pytest.raises(RecipeError, match="exit code 1 before it answered") as caught:
                server.address()
            assert "CUDA out of memory" in str(caught.value)
            assert "models.solver" in str(caught.value)
    assert (tmp_path / "log").read_text().count("loading the weights") == 1


def test_a_server_that_stays_silent_is_given_up_and_ended(tmp_path: Path) -> None:
    mark = f"--mark={tmp_path}"
    with (
        VllmServer(model(args=["--silent", mark], start_seconds=1.0), tmp_path / "log", role="solver") as server,
        pytest.raises(RecipeError, match=r"within 1 s; raise models\.solver\.vllm\.start_seconds"),
    ):
        server.address()
    assert processes_with(mark) == []


def test_a_server_that_dies_later_is_started_again(tmp_path: Path) -> None:
    mark = f"--mark={tmp_path}"
    made = model(args=[mark])
    client = VllmClient(made, VllmServer(made, tmp_path / "log"), None)
    client.complete(ask())
    for process in processes_with(mark):
        process.kill()
    assert gone(mark)
    assert client.complete(ask(last="again")).text == "echo: again"
    client.close()


def test_a_missing_program_says_how_to_get_it(tmp_path: Path) -> None:
    server = VllmServer(model(command=["no-such-vllm", "serve"]), tmp_path / "log", role="solver")
    with pytest.raises(MissingRequirement, match=r"'no-such-vllm'.*pip install 'endless-terminals\[train\]'"):
        server.address()


def test_the_cpu_builds_broken_program_is_recognised(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", "echo 'PackageNotFoundError: No package metadata was found for vllm'; exit 1"]
    server = VllmServer(model(command=shell), tmp_path / "log")
    with pytest.raises(RecipeError, match=r"the CPU build has no working `vllm serve`, see configs/llm/vllm\.yaml"):
        server.address()


def test_the_environment_of_the_recipe_reaches_the_server(tmp_path: Path) -> None:
    shell = ["/bin/sh", "-c", 'echo "level=$VLLM_LOGGING_LEVEL"; exit 3']
    server = VllmServer(model(command=shell, env={"VLLM_LOGGING_LEVEL": "DEBUG"}), tmp_path / "log")
    with pytest.raises(RecipeError, match="exit code 3") as caught:
        server.address()
    assert "level=DEBUG" in str(caught.value)


def test_kill_9_of_the_runner_leaves_no_server_behind(tmp_path: Path) -> None:
    mark = f"--mark={tmp_path}"
    # The stand-in runs below a shell that ignores TERM, as a server's worker processes may.
    stubborn = ["/bin/sh", "-c", f"trap '' TERM; {' '.join(STAND_IN)} \"$@\" & wait; wait", mark]
    owner = Path(__file__).parents[1] / "support" / "lifeline_owner.py"
    command = [sys.executable, str(owner), str(tmp_path / "log"), "tiny", json.dumps({"command": stubborn})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with urllib.request.urlopen(address.removesuffix("/v1") + "/health") as reply:
            assert reply.status == 200
        process.kill()
    assert gone(mark)
    port = address.removesuffix("/v1").rpartition(":")[2]
    assert gone(port)


def test_a_running_server_is_used_with_or_without_v1_in_its_address() -> None:
    with Loopback() as server:
        for address in (server.url, server.url + "/", server.openai_url):
            client = running(replace(model(), base_url=address), None)
            assert client.complete(ask(last="hi")).text == "echo: hi"
            client.close()
