"""The trainer's engine as a ``Client``: the agent's loop asks with messages, the engine is asked with token ids.

The engine lives on an event loop, an episode in a thread of its own, because sandboxes block. ``Bridge`` is the way
from one to the other, and the way to end an episode that nobody waits for any more.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol, TypeVar

from runner.domain.errors import EndlessError, ProviderError
from runner.llm.base import Completion, Finish, Request, Usage
from runner.training.executor.chat import Chat
from runner.training.executor.tokens import Trajectory

T = TypeVar("T")

_LOOK_SECONDS = 5.0
"""How often a waiting episode looks whether the event loop still runs."""
_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


class Engine(Protocol):
    """OpenRLHF's rollout worker, or vLLM's own async engine behind it."""

    async def generate(self, prompt_token_ids: Sequence[int], sampling_params: Any) -> Any:
        """A vLLM ``RequestOutput``: ``outputs[0]`` has ``token_ids``, ``text``, ``finish_reason``, ``logprobs``."""


class Abandoned(EndlessError):
    """The trainer no longer waits for this episode."""


class Bridge:
    """Lets an episode's thread wait for the event loop, until it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._pending: concurrent.futures.Future[Any] | None = None
        self.stopped = threading.Event()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result, from another thread. Raises Abandoned once stopped, and whatever the work raises."""
        with self._lock:
            if self.stopped.is_set() or self._loop.is_closed():
                work.close()
                raise Abandoned("the trainer no longer waits")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
            self._pending = future
        try:
            return self._result(future)
        except concurrent.futures.CancelledError as error:
            if self.stopped.is_set():
                raise Abandoned("the trainer no longer waits") from error
            raise ProviderError("the engine cancelled a generation") from error

    def _result(self, future: "concurrent.futures.Future[T]") -> T:
        """Wait, but not for a loop that has ended with its process: threads are waited for at exit."""
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimeoutError:
                if future.done():  # the work's own
                    raise
                if not self._loop.is_running():
                    raise Abandoned("the engine's event loop has ended") from None

    def stop(self) -> None:
        """End the wait in hand and every later one. From any thread."""
        with self._lock:
            self.stopped.set()
            if self._pending is not None:
                self._pending.cancel()


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
        """Answer, within the reply's cap and what is left of the context. Raises ProviderError, Abandoned."""
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
