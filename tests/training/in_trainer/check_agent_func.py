"""The file that OpenRLHF loads, loaded as OpenRLHF loads it, with real torch tensors made of what it returns."""

import asyncio
from pathlib import Path

import pytest
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import _load_agent_executor
from openrlhf.utils.agent import AgentExecutorBase
from support.rollouts import DONE, WORDS, a_task, command, prompt_of, settings
from support.scripted import ScriptedEngine, answer, cut
from vllm import SamplingParams

import runner.training.executor as executor
from runner.schema import Agent, Sandbox
from runner.training.executor.settings import write_settings

TASK = a_task()


class RecordingEngine(ScriptedEngine):
    """Keeps the real sampling parameters."""

    seen: list = []  # noqa: RUF012

    async def generate(self, prompt_token_ids, sampling_params, multi_modal_data=None):
        self.seen.append(sampling_params)
        tokens, finish = cut(self._words, self._script[len(self.prompts)], sampling_params.max_tokens)
        self.prompts.append(prompt_token_ids)
        return answer(self._words, tokens, finish, logprobs=sampling_params.logprobs)


@pytest.fixture
def agent(tmp_path, monkeypatch):
    made = settings(tmp_path, [TASK], sandbox=Sandbox(backend="support.scripted:ScriptedBackend"))
    for name, value in write_settings(tmp_path / "executor.json", made).items():
        monkeypatch.setenv(name, value)
    loaded = _load_agent_executor(str(Path(executor.__file__).with_name("agent_func.py")))
    assert isinstance(loaded, AgentExecutorBase)
    yield loaded
    loaded._worker.close()


def test_an_episode_becomes_a_sample(agent):
    engine = RecordingEngine(WORDS, [command("wc"), DONE])
    asked = SamplingParams(temperature=1.0, max_tokens=None, min_tokens=1, skip_special_tokens=False, logprobs=1)
    response = asyncio.run(
        agent.execute(
            prompt=prompt_of(TASK, Agent()),
            label=TASK.id,
            sampling_params=asked,
            max_length=16384,
            hf_tokenizer=WORDS,
            llm_engine=engine,
        )
    )
    sample = SamplesGenerator._process_response_into_experience(None, response, max_len=16384)
    assert sample.action_mask.sum() == response["extra_logs"]["action_tokens"]
    assert sample.rewards.tolist() == [1.0]
    assert sample.info["turns"].tolist() == [2.0]
    assert (sample.rollout_log_probs != 0).equal(sample.action_mask.bool())
    assert asked.max_tokens is None, "the trainer's own parameters are shared by all samples"
    assert [params.max_tokens for params in engine.seen] == [2048, 2048]
    assert engine.seen[0].stop_token_ids == [WORDS.eos_token_id]
