"""A rollout worker: how many at once, off the event loop, and what becomes of trouble."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from support.rollouts import DONE, WORDS, a_task, command, prompt_of, rollout, settings
from support.scripted import Reply, ScriptedBackend, ScriptedEngine, ScriptedSandbox, params, until

from runner.domain.episode import EndReason
from runner.domain.errors import EngineError, RecipeError, UserError
from runner.sandbox.base import Image
from runner.schema import Agent, Sandbox
from runner.store.jsonl import read_lines
from runner.training.executor.logs import KEYS
from runner.training.executor.settings import VARIABLE, read_settings, write_settings
from runner.training.executor.worker import Worker

TASK = a_task()
PASSING = [command("wc"), DONE]


@contextmanager
def worker(tmp_path: Path, backend: str = "support.scripted:ScriptedBackend", **changed) -> Iterator[Worker]:
    made = Worker(settings(tmp_path, [TASK], sandbox=Sandbox(backend=backend, prestart=0), **changed))
    try:
        yield made
    finally:
        made.close()


def rows(tmp_path: Path) -> list[dict]:
    (path,) = (tmp_path / "episodes").glob("episodes-*.jsonl")
    return list(read_lines(path))


class Blocking(ScriptedBackend):
    """Its sandboxes take a moment, in which their thread can do nothing else."""

    seconds = 0.1

    @contextmanager
    def start(self, image: Image) -> Iterator[ScriptedSandbox]:
        with super().start(image) as sandbox:
            time.sleep(self.seconds)
            yield sandbox


class Broken(ScriptedBackend):
    """Never opens a sandbox."""

    @contextmanager
    def start(self, image: Image) -> Iterator[ScriptedSandbox]:
        raise EngineError("the engine is gone")
        yield


class Hanging(ScriptedEngine):
    """Never answers."""

    async def generate(self, prompt_token_ids, sampling_params):
        self.prompts.append(prompt_token_ids)
        await asyncio.sleep(600)


class Odd(ScriptedEngine):
    """Spoils the first answer."""

    def __init__(self, script, spoil):
        super().__init__(WORDS, script)
        self._spoil = spoil

    async def generate(self, prompt_token_ids, sampling_params):
        found = await super().generate(prompt_token_ids, sampling_params)
        if self._spoil:
            spoil, self._spoil = self._spoil, None
            spoil(found.outputs[0])
        return found


def test_a_graded_episode_is_what_openrlhf_reads(tmp_path):
    with worker(tmp_path) as made:
        got = asyncio.run(rollout(made, TASK, PASSING))
    assert got["label"] == TASK.id
    assert got["prompt"] == prompt_of(TASK, Agent())
    assert got["reward"] == got["scores"] == 1.0
    assert type(got["reward"]) is float
    assert len(got["rollout_log_probs"]) == len(got["observation_tokens"])
    assert list(got["extra_logs"]) == list(KEYS)
    assert all(type(value) is float for value in got["extra_logs"].values())
    assert got["extra_logs"]["turns"] == 2.0
    assert got["extra_logs"]["end_done"] == 1.0
    parts = [got["extra_logs"][f"seconds_{part}"] for part in ("model", "shell", "grading", "waiting")]
    assert sum(parts) == pytest.approx(got["extra_logs"]["seconds"])


def test_an_episode_leaves_a_row_with_its_turns_and_tokens(tmp_path):
    with worker(tmp_path) as made:
        got = asyncio.run(rollout(made, TASK, PASSING))
        asyncio.run(rollout(made, TASK, [DONE]))
    first, second = rows(tmp_path)
    assert [turn["command"] for turn in first["turns"]] == ["wc", None]
    assert (first["sample"], second["sample"]) == (0, 1)
    assert first["tokens"] == len(got["observation_tokens"])
    assert first["action_tokens"] == got["extra_logs"]["action_tokens"]
    assert (first["reward"], second["reward"]) == (1.0, 0.0)
    assert first["ended"] <= second["ended"] <= time.time()


@pytest.mark.parametrize("needs_done", [False, True])
def test_whether_a_pass_also_needs_done_is_config(tmp_path, needs_done):
    with worker(tmp_path, agent=Agent(max_turns=1), needs_done=needs_done) as made:
        got = asyncio.run(rollout(made, TASK, [command("wc")]))
    assert got["extra_logs"]["passed"] == 1.0
    assert got["reward"] == (0.0 if needs_done else 1.0)


def test_no_more_sandboxes_are_open_than_episodes_may_live(tmp_path):
    async def many(made):
        return await asyncio.gather(*(rollout(made, TASK, PASSING) for _ in range(12)))

    with worker(tmp_path, f"{__name__}:Blocking", live=3) as made:
        got = asyncio.run(many(made))
    assert [one["reward"] for one in got] == [1.0] * 12
    assert Blocking.last.most == 3
    assert Blocking.last.open == 0


def test_sandboxes_never_hold_up_the_event_loop(tmp_path, monkeypatch):
    async def watched(made):
        beats = []

        async def beat():
            while True:
                beats.append(time.monotonic())
                await asyncio.sleep(0.005)

        heart = asyncio.create_task(beat())
        await asyncio.gather(*(rollout(made, TASK, PASSING) for _ in range(2)))
        heart.cancel()
        return max(later - earlier for earlier, later in pairwise(beats))

    monkeypatch.setattr(Blocking, "seconds", 2.0)
    with worker(tmp_path, f"{__name__}:Blocking", live=2) as made:
        assert asyncio.run(watched(made)) < 1.0


def test_trouble_is_tried_again_and_then_masked_and_never_a_reward(tmp_path):
    with worker(tmp_path, f"{__name__}:Broken", retries=2) as made:
        got = asyncio.run(rollout(made, TASK, PASSING))
    assert got["action_ranges"] == []
    assert WORDS.decode(got["observation_tokens"]) == got["prompt"]
    assert got["rollout_log_probs"] == [0.0] * len(got["observation_tokens"])
    assert got["extra_logs"]["masked"] == 1.0
    assert got["extra_logs"]["infra_retries"] == 2.0
    assert list(got["extra_logs"]) == list(KEYS)
    (row,) = rows(tmp_path)
    assert row["outcome"] == row["end"] == "infra"
    assert "the engine is gone" in row["verdict"]


def set_field(name, value):
    return lambda output: setattr(output, name, value)


def fail(output):
    raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.mark.parametrize(
    "spoil",
    [
        fail,
        set_field("finish_reason", "abort"),
        set_field("logprobs", None),
        lambda out: setattr(out, "logprobs", [{}]),
    ],
    ids=["exception", "abort", "no-probabilities", "other-probabilities"],
)
def test_an_engine_that_fails_once_costs_a_retry_and_leaves_no_token_behind(tmp_path, spoil):
    with worker(tmp_path) as made:
        got = asyncio.run(rollout(made, TASK, Odd(PASSING[:1] + PASSING, spoil)))
    assert got["extra_logs"]["infra_retries"] == 1.0
    assert got["reward"] == 1.0
    actions = [got["observation_tokens"][start:end] for start, end in got["action_ranges"]]
    assert [WORDS.decode(tokens) for tokens in actions] == [f"{reply.text}<|im_end|>" for reply in PASSING]


@pytest.mark.parametrize("moment", ["model", "command"])
def test_a_cancelled_rollout_closes_its_sandbox(tmp_path, moment):
    async def cancelled(made):
        sleeping = json.dumps({"output": "x"})
        engine = Hanging(WORDS, []) if moment == "model" else ScriptedEngine(WORDS, [command(sleeping)] * 99)
        task = asyncio.create_task(rollout(made, TASK, engine))
        await asyncio.to_thread(until, lambda: len(engine.prompts) > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(until, lambda: ScriptedBackend.last.open == 0)

    with worker(tmp_path, agent=Agent(max_turns=99)) as made:
        asyncio.run(cancelled(made))
        assert asyncio.run(rollout(made, TASK, PASSING))["reward"] == 1.0


def test_a_cancelled_rollout_that_still_waits_for_a_place_never_starts(tmp_path):
    async def cancelled(made):
        first, second = (Hanging(WORDS, []), Hanging(WORDS, []))
        tasks = [asyncio.create_task(rollout(made, TASK, engine)) for engine in (first, second)]
        await asyncio.to_thread(until, lambda: len(first.prompts) > 0)
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return second.prompts

    with worker(tmp_path, live=1) as made:
        assert asyncio.run(cancelled(made)) == []


def test_an_event_loop_that_ends_takes_its_episodes_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("runner.rollout.bridge._LOOK_SECONDS", 0.05)
    engine = Hanging(WORDS, [])

    async def left(made):
        task = asyncio.get_running_loop().run_in_executor(None, until, lambda: len(engine.prompts) > 0)
        made_task = asyncio.create_task(rollout(made, TASK, engine))
        await task
        return made_task

    with worker(tmp_path) as made:
        asyncio.run(left(made))
        until(lambda: ScriptedBackend.last.open == 0)


def test_a_prompt_that_is_not_the_agents_ends_the_run(tmp_path):
    async def wrong(made):
        prompt = prompt_of(a_task("other"), Agent())
        await made.execute(prompt, TASK.id, params(), 4096, WORDS, ScriptedEngine(WORDS, PASSING))

    with worker(tmp_path) as made, pytest.raises(RecipeError, match="not the agent's"):
        asyncio.run(wrong(made))


@pytest.mark.parametrize("label", ["", "nobody"])
def test_a_label_that_is_no_task_ends_the_run(tmp_path, label):
    async def wrong(made):
        await made.execute("prompt", label, params(), 4096, WORDS, ScriptedEngine(WORDS, PASSING))

    with worker(tmp_path) as made, pytest.raises(UserError, match="is no task"):
        asyncio.run(wrong(made))


def test_a_full_disk_costs_the_row_and_not_the_episode(tmp_path):
    (tmp_path / "episodes").write_text("a file where the folder should be")
    with worker(tmp_path) as made:
        assert asyncio.run(rollout(made, TASK, PASSING))["reward"] == 1.0


def test_one_token_over_and_over_is_noticed(tmp_path):
    agent = Agent(max_turns=1)
    with worker(tmp_path, agent=agent) as made:
        stuck = asyncio.run(rollout(made, TASK, [Reply(text="na" + "!" * 60)]))
        fine = asyncio.run(rollout(made, TASK, PASSING))
    assert stuck["extra_logs"]["repeated"] == 1.0
    assert stuck["extra_logs"][f"end_{EndReason.TURN_LIMIT}"] == 1.0
    assert fine["extra_logs"]["repeated"] == 0.0


def test_settings_reach_the_worker_through_a_file(tmp_path, monkeypatch):
    wanted = settings(tmp_path, [TASK], sandbox=Sandbox(), live=7)
    for name, value in write_settings(tmp_path / "executor.json", wanted).items():
        monkeypatch.setenv(name, value)
    assert read_settings() == wanted


def test_live_episodes_are_shared_by_the_engines(tmp_path):
    wanted = settings(tmp_path, [TASK], sandbox=Sandbox(), live=10)
    assert [replace(wanted, engines=n).live_episodes for n in (1, 3, 10, 64)] == [10, 4, 1, 1]
    third = replace(wanted, engines=3)
    assert (third.sandbox.concurrency, third.sandbox.prestart, third.threads) == (4, 3, 7)


@pytest.mark.parametrize("content", [None, "", "{}", '{"engines": 1}', "[1]", '{"nonsense": 1}'])
def test_settings_that_are_missing_or_broken_say_so(tmp_path, monkeypatch, content):
    path = tmp_path / "executor.json"
    monkeypatch.delenv(VARIABLE, raising=False)
    if content is not None:
        path.write_text(content)
        monkeypatch.setenv(VARIABLE, str(path))
    with pytest.raises(RecipeError, match=VARIABLE):
        read_settings()
