"""The trainer's engine as a ``Client``: the agent's loop asks with messages, the engine is asked with token ids.

The engine lives on an event loop, an episode in a thread of its own, because sandboxes block: see ``rollout/bridge``.
"""

import time
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

from runner.domain.errors import ProviderError
from runner.llm.base import Completion, Finish, Request, Usage
from runner.rollout.bridge import Bridge
from runner.training.executor.chat import Chat
from runner.training.executor.tokens import Trajectory

_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


class Engine(Protocol):
    """OpenRLHF's rollout worker, or vLLM's own async engine behind it."""

    async def generate(self, prompt_token_ids: Sequence[int], sampling_params: Any) -> Any:
        """A vLLM ``RequestOutput``: ``outputs[0]`` has ``token_ids``, ``text``, ``finish_reason``, ``logprobs``."""


class EngineClient:
    """One episode's client: keeps its trajectory. See ``llm.base.Client``."""

    def __init__(self, engine: Engine, bridge: Bridge, chat: Chat, trajectory: Trajectory, params: Any) -> None:
        """``params`` is a vLLM ``SamplingParams``, which is copied for each turn."""
        self._engine, self._bridge, self._chat = engine, bridge, chat
        self._params = params
        self.trajectory = trajectory
        self.cut = False
        """Whether the last reply was cut at its token limit."""

    def complete(self, request: Request) -> Completion:
        """Answer, within the reply's cap and what is left of the context. Raises InfraError, Abandoned."""
        observation = self._observation(request)
        room = self.trajectory.room(observation)
        if room < 1:  # as a vLLM server answers in the filter: see llm/openai.py
            return Completion(text="", finish=Finish.CONTEXT)
        began = time.monotonic()
        self.trajectory.observe(observation)
        read = len(self.trajectory.ids)
        output = self._generate(min(request.max_tokens, room))
        sampled = list(output.token_ids)
        self.trajectory.act(sampled, _log_probs(sampled, output.logprobs) if self.trajectory.measured else None)
        finish = _FINISH.get(output.finish_reason)
        if finish is None:
            raise ProviderError(f"the engine ended a generation with {output.finish_reason!r}")
        self.cut = finish is Finish.LENGTH
        usage = Usage(input_tokens=read, output_tokens=len(sampled))
        return Completion(text=output.text, usage=usage, finish=finish, seconds=time.monotonic() - began)

    def close(self) -> None:
        """The engine belongs to the worker."""

    def _observation(self, request: Request) -> list[int]:
        """The last message, as the tokens since the last reply; nothing before the first."""
        if request.messages[-2].role == "system":
            return []
        ids = self.trajectory.ids
        ended = (
            bool(self.trajectory.actions) and self.trajectory.actions[-1][1] == len(ids) and ids[-1] == self._chat.end
        )
        return self._chat.observation(request.messages[-1].content, ended=ended)

    def _generate(self, max_tokens: int) -> Any:
        params = deepcopy(self._params)
        params.max_tokens = max_tokens
        params.skip_special_tokens = True  # as in a server's replies
        params.stop_token_ids = [self._chat.end]  # also where a tokenizer names another token as its EOS
        answer = self._bridge.wait_for(self._engine.generate(list(self.trajectory.ids), params))
        if answer is None or not answer.outputs:
            raise ProviderError("the engine gave no answer")
        return answer.outputs[0]


def _log_probs(sampled: Sequence[int], reported: Sequence[Mapping[int, Any]] | None) -> list[float]:
    """The sampled tokens' own among those that the engine reports. Raises ProviderError where one is missing."""
    if reported is None or len(reported) != len(sampled):
        raise ProviderError("the engine did not report a log-probability for each sampled token")
    try:
        return [float(choices[token].logprob) for token, choices in zip(sampled, reported, strict=True)]
    except KeyError as error:
        raise ProviderError(f"the engine did not report the log-probability of token {error}") from error
