"""Rollouts on the real vLLM with a tiny random model: what it really returns, wherever a rollout relies on it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from support import tiny_model
from support.rollouts import a_task, settings
from transformers import AutoTokenizer
from vllm import SamplingParams

from runner.agent.harness import PROMPTS, opening
from runner.prompts import PromptSet
from runner.schema import Agent, Sandbox
from runner.training.executor.worker import Worker

TASK = a_task()
ROLLOUTS = 6
AGENT = Agent(max_turns=4, max_invalid=4, turn_tokens=15, context_tokens=1400)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="vLLM")


class Served:
    """As OpenRLHF's rollout worker asks the engine."""

    def __init__(self, llm):
        self._llm = llm
        self.answers = []

    async def generate(self, prompt_token_ids, sampling_params, multi_modal_data=None):
        from vllm.inputs import TokensPrompt
        from vllm.utils import random_uuid

        last = None
        prompt = TokensPrompt(prompt_token_ids=prompt_token_ids)
        async for output in self._llm.generate(prompt, sampling_params, request_id=random_uuid()):
            last = output
        self.answers.append((sampling_params.max_tokens, last.outputs[0]))
        return last


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_model.build(folder, context_tokens=AGENT.context_tokens)
    return folder


def rendered(tokenizer):
    messages = opening(AGENT, TASK.instruction, PromptSet.open(PROMPTS, "default"))
    conversation = [{"role": m.role, "content": m.content} for m in messages]
    return tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)


async def play(model: Path, worker: Worker, tokenizer):
    import vllm

    arguments = vllm.AsyncEngineArgs(
        model=str(model),
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=AGENT.context_tokens,
        logprobs_mode="processed_logprobs",
        max_logprobs=1,
        seed=0,
    )
    llm = vllm.AsyncLLMEngine.from_engine_args(arguments)
    engines = [Served(llm) for _ in range(ROLLOUTS)]
    # A bias towards the end of a turn: a random policy would hardly ever stop by itself.
    asked = SamplingParams(
        temperature=1.0, min_tokens=1, max_tokens=None, logprobs=1, logit_bias={tokenizer.eos_token_id: 4.0}
    )
    try:
        prompt = rendered(tokenizer)
        return engines, await asyncio.gather(
            *(worker.execute(prompt, TASK.id, asked, AGENT.context_tokens, tokenizer, engine) for engine in engines)
        )
    finally:
        llm.shutdown()


def test_rollouts_on_the_real_engine(tmp_path, model, monkeypatch):
    for name, value in {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}.items():
        monkeypatch.setenv(name, os.environ.get(name, value))
    tokenizer = AutoTokenizer.from_pretrained(model)
    made = settings(tmp_path, [TASK], sandbox=Sandbox(backend="support.scripted:ScriptedBackend"), agent=AGENT)
    worker = Worker(made)
    try:
        engines, responses = asyncio.run(play(model, worker, tokenizer))
    finally:
        worker.close()
    for engine, response in zip(engines, responses, strict=True):
        check(engine, response, tokenizer)
    finishes = {output.finish_reason for engine in engines for _, output in engine.answers}
    assert finishes == {"stop", "length"}, "both ways to end a reply are here"


def whole(text):
    """Without the characters that a random model leaves half-written, which are decoded in more than one way."""
    return text.replace("\N{REPLACEMENT CHARACTER}", "")


def check(engine, response, tokenizer):
    ids = response["observation_tokens"]
    assert response["extra_logs"]["masked"] == 0.0
    assert len(ids) <= AGENT.context_tokens
    sampled = [ids[start:end] for start, end in response["action_ranges"]]
    assert sampled == [list(output.token_ids) for _, output in engine.answers]
    for cap, output in engine.answers:
        assert len(output.token_ids) <= cap <= AGENT.turn_tokens
        stopped = output.finish_reason == "stop"
        assert (output.token_ids[-1] == tokenizer.eos_token_id) is stopped
        visible = output.token_ids[:-1] if stopped else output.token_ids
        assert whole(output.text) == whole(tokenizer.decode(visible, skip_special_tokens=True))
    mask = [any(start <= i < end for start, end in response["action_ranges"]) for i in range(len(ids))]
    assert all(value <= 0.0 for value in response["rollout_log_probs"])
    assert all(
        value == 0.0 for value, is_action in zip(response["rollout_log_probs"], mask, strict=True) if not is_action
    )
