"""Scripted agents and sandboxes: the same script drives the filter's client and the trainer's engine.

A script is a list of ``Reply``. Time is a ``Clock`` that replies and commands move on.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from support.words import Words

from runner.llm.base import Completion, Finish, Request, Usage
from runner.sandbox.base import ExecResult, Image
from runner.sandbox.null import NullBackend, NullSandbox
from runner.schema import Sandbox as Settings

LOG_PROB = -0.25


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the policy writes if it may go on for as long as it likes."""

    text: str
    seconds: float = 0.0


@dataclass
class Clock:
    """Seconds since some beginning."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now

    def go_on(self, seconds: float) -> None:
        self.now += seconds


def params(*, logprobs: int | None = None) -> Any:
    """The part of vLLM's ``SamplingParams`` that anybody reads or sets."""
    return SimpleNamespace(logprobs=logprobs, max_tokens=None, min_tokens=1)


def cut(words: Words, reply: Reply, max_tokens: int) -> tuple[list[int], str]:
    """The sampled tokens and why the policy stopped."""
    whole = [*words.encode(reply.text), words.eos_token_id]
    return (whole, "stop") if len(whole) <= max_tokens else (whole[:max_tokens], "length")


class ScriptedEngine:
    """See ``executor.engine.Engine``. Keeps the token ids that it was asked with."""

    def __init__(self, words: Words, script: Sequence[Reply], clock: Clock | None = None) -> None:
        self._words, self._script, self._clock = words, list(script), clock or Clock()
        self.prompts: list[list[int]] = []
        self.caps: list[int] = []
        self.sampled: list[list[int]] = []

    async def generate(self, prompt_token_ids: Sequence[int], sampling_params: Any) -> Any:
        reply = self._script[len(self.prompts)]
        self.prompts.append(list(prompt_token_ids))
        self.caps.append(sampling_params.max_tokens)
        tokens, finish = cut(self._words, reply, sampling_params.max_tokens)
        self.sampled.append(tokens)
        self._clock.go_on(reply.seconds)
        return answer(self._words, tokens, finish, logprobs=sampling_params.logprobs)


def answer(words: Words, tokens: list[int], finish: str, *, logprobs: int | None) -> Any:
    """A vLLM ``RequestOutput``."""
    visible = tokens[:-1] if finish == "stop" else tokens
    reported = [{token: SimpleNamespace(logprob=LOG_PROB)} for token in tokens] if logprobs is not None else None
    output = SimpleNamespace(
        token_ids=tuple(tokens),
        text=words.decode(visible, skip_special_tokens=True),
        finish_reason=finish,
        logprobs=reported,
    )
    return SimpleNamespace(outputs=[output])


class TurnEngine(ScriptedEngine):
    """Says what the script says for the turn that the prompt has come to, so that an episode may begin again."""

    def __init__(self, words: Words, script: Sequence[Reply], clock: Clock | None = None) -> None:
        super().__init__(words, (), clock)
        self._replies = list(script)

    async def generate(self, prompt_token_ids: Sequence[int], sampling_params: Any) -> Any:
        turn = self._words.decode(prompt_token_ids).count("<|im_start|>assistant") - 1
        self._script.append(self._replies[turn])
        return await super().generate(prompt_token_ids, sampling_params)


class ScriptedClient:
    """What the filter's client says when a vLLM server with a window of ``context`` tokens answers it."""

    def __init__(self, words: Words, script: Sequence[Reply], context: int, clock: Clock | None = None) -> None:
        self._words, self._script, self._context, self._clock = words, list(script), context, clock or Clock()
        self.prompts: list[list[int]] = []

    def complete(self, request: Request) -> Completion:
        conversation = [{"role": m.role, "content": m.content} for m in request.messages]
        text = self._words.apply_chat_template(conversation, add_generation_prompt=True)
        prompt = self._words.encode(text)
        room = self._context - len(prompt)
        if room < 1:
            return Completion(text="", finish=Finish.CONTEXT)
        reply = self._script[len(self.prompts)]
        self.prompts.append(prompt)
        tokens, finish = cut(self._words, reply, min(request.max_tokens, room))
        self._clock.go_on(reply.seconds)
        return Completion(
            text=self._words.decode(tokens[:-1] if finish == "stop" else tokens, skip_special_tokens=True),
            usage=Usage(input_tokens=len(prompt), output_tokens=len(tokens)),
            finish=Finish.STOP if finish == "stop" else Finish.LENGTH,
        )

    def close(self) -> None:
        """Nothing to close."""


class ScriptedSandbox(NullSandbox):
    """Commands are JSON: the fields of the ``ExecResult`` they give. Anything else prints itself."""

    def __init__(self, verdict: Callable[..., bool], clock: Clock) -> None:
        super().__init__(verdict)
        self._clock = clock

    def run(self, command: str, *, timeout: float) -> ExecResult:
        super().run(command, timeout=timeout)
        try:
            told = json.loads(command)
            told = told if isinstance(told, dict) else {}
        except ValueError:
            told = {}
        output = told.pop("output", command).encode()
        seconds = min(told.pop("seconds", 0.0), timeout)
        self._clock.go_on(seconds)
        return ExecResult(**{"exit_code": 0, "cwd": "/home/user", **told, "output": output, "seconds": seconds})


class ScriptedBackend(NullBackend):
    """Opens scripted sandboxes, and knows how many are open. Also a plug-in: ``support.scripted:ScriptedBackend``."""

    last: ClassVar["ScriptedBackend"]
    """The one made last, for tests that let others make it."""

    def __init__(
        self, config: Settings | None = None, cache: Path = Path(), run_label: str = "", *, clock: Clock | None = None
    ) -> None:
        super().__init__(config or Settings(), cache, run_label)
        self._clock, self._lock = clock or Clock(), threading.Lock()
        self.open = self.most = 0
        type(self).last = self

    @contextmanager
    def start(self, image: Image) -> Iterator[ScriptedSandbox]:
        with self._lock:
            self.open += 1
            self.most = max(self.most, self.open)
        try:
            yield ScriptedSandbox(self.verdict, self._clock)
        finally:
            with self._lock:
                self.open -= 1


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for it; fails when it does not come true in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.01)
