"""Other models on the held-out tasks: asked over a real provider's API, scored beside the solver, never paid twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.endless import Workplace, quickstart_server
from support.loopback import Loopback

from runner.store.jsonl import read_lines

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SAMPLES = 2


def words(server: Loopback, *names: str) -> list[str]:
    """The quickstart, its recorded replies also served as other models."""
    model = f"provider: openai, base_url: '{server.openai_url}', max_retries: 2"
    models = ", ".join(f"{name}: {{{model}, name: {name}}}" for name in names)
    return ["eval=dev", f"eval.dev.samples={SAMPLES}", f"+eval.dev.models={{{models}}}"]


def newest(place: Workplace) -> Path:
    """The last evaluation's folder."""
    folders = [path for path in (place.store / "evaluate").iterdir() if path.is_dir()]
    return max(folders, key=lambda path: path.stat().st_mtime)


def scores(place: Workplace) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((newest(place) / "dev" / "scores.json").read_text())
    return found


def test_other_models_are_scored_on_the_held_out_tasks_and_each_asked_only_for_what_is_new(
    local_workplace: Workplace,
) -> None:
    with quickstart_server() as server:
        local_workplace.run("quickstart", *words(server, "one"))
        asked = len(server.calls)
        _check(local_workplace, "one")
        local_workplace.run("quickstart", *words(server, "one", "two"))
        assert 0 < len(server.calls) - asked < 2 * asked, "the first model is not asked again"
        assert {call.model for call in server.calls[asked:]} == {"two"}
        _check(local_workplace, "two")


def _check(place: Workplace, name: str) -> None:
    found, dev = scores(place), json.loads((place.results().dataset / "split.json").read_text())["dev"]
    model, solver = found["models"][name], found["models"]["solver"]
    assert set(model["per_task"]) == set(solver["per_task"]) == set(dev)
    rows = list(read_lines(newest(place) / "dev" / name / "episodes.jsonl"))
    assert sorted((row["task_id"], row["sample"]) for row in rows) == sorted(
        (t, s) for t in dev for s in range(SAMPLES)
    )
    passes = sum(row["outcome"] == "pass" for row in rows)
    assert (model["passes"], model["episodes"], model["infra"]) == (passes, len(rows), 0)
    assert model["pass_at"]["1"]["value"] == pytest.approx(passes / len(rows))
