"""A rollout worker's share of everything: its threads, its sandboxes, its tasks, and the file its episodes go to."""

import asyncio
import atexit
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from runner.agent.harness import PROMPTS, opening
from runner.domain.errors import EngineError, MissingRequirement, StorageError, UserError
from runner.domain.plain import plain
from runner.domain.task import Task
from runner.llm.base import Message
from runner.prompts import PromptSet
from runner.rollout.bridge import Bridge
from runner.sandbox.base import Backend
from runner.sandbox.outage import Outages
from runner.sandbox.registry import open_backend
from runner.store.jsonl import append
from runner.store.tasks import read_task
from runner.training.executor.chat import Chat, Tokenizer
from runner.training.executor.engine import Engine
from runner.training.executor.response import Response
from runner.training.executor.rollout import Played, Request, Rollout
from runner.training.executor.settings import ExecutorSettings

log = logging.getLogger(__name__)


class Worker:
    """Plays rollouts, ``settings.live_episodes`` of them at once; the others wait for a thread.

    Everything that blocks happens in those threads, never on the event loop that the engine lives on.
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        """Opens nothing yet: the engine's processes are forked first."""
        self.settings = settings
        self._prompts = PromptSet.open(PROMPTS, settings.recipe.agent.prompt)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="rollout")
        self._lock, self._opening = threading.Lock(), threading.Lock()
        self._backend: Backend | None = None
        self._closed = False
        self._outages = Outages(settings.recipe.executor.engine_seconds)
        self._chats: dict[str, Chat] = {}
        self._samples: Counter[str] = Counter()
        self._rows = settings.episodes / f"episodes-{socket.gethostname()}-{os.getpid()}.jsonl"
        atexit.register(self.close)

    async def execute(
        self, prompt: str, label: str, params: Any, max_length: int, tokenizer: Tokenizer, engine: Engine
    ) -> Response:
        """One rollout. Raises UserError for a prompt, label or chat template that is wrong for all; anything else is
        retried and then masked.

        When it is cancelled, its sandbox is closed as soon as what runs in it returns.
        """
        bridge = Bridge()
        request = Request(
            prompt=prompt, label=label, params=params, max_length=max_length, engine=engine, bridge=bridge
        )
        future = self._threads.submit(self._play, request, tokenizer)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            bridge.stop()
            raise

    def close(self) -> None:
        """End what still runs and remove what is left of the sandboxes. Idempotent."""
        atexit.unregister(self.close)
        with self._opening:
            backend, self._backend, self._closed = self._backend, None, True
        if backend is not None:
            backend.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)
        if backend is not None:
            backend.close()

    def _play(self, request: Request, tokenizer: Tokenizer) -> Response:
        task = self._task(request.label)
        chat = self._chat(tokenizer)
        rollout = Rollout(
            request=request,
            task=task,
            sample=self._next_sample(task.id),
            recipe=self.settings.recipe,
            prompts=self._prompts,
            chat=chat,
            prompt_ids=chat.prompt(request.prompt, self._opening_of(task)),
            outages=self._outages,
            open_backend=self._sandboxes,
        )
        played = rollout.play()
        self._keep(played)
        return played.response

    def _task(self, label: str) -> Task:
        folder = self.settings.tasks / label
        if not label or not folder.is_dir():
            raise UserError(f"the prompt's label {label!r} is no task in {self.settings.tasks}")
        return read_task(folder)

    def _opening_of(self, task: Task) -> Sequence[Message]:
        return opening(self.settings.recipe.agent, task.instruction, self._prompts)

    def _chat(self, tokenizer: Tokenizer) -> Chat:
        """The trainer sends its tokenizer anew with each request; its template is read once."""
        template = str(getattr(tokenizer, "chat_template", ""))
        with self._lock:
            if template not in self._chats:
                self._chats[template] = Chat(tokenizer)
            return self._chats[template]

    def _sandboxes(self) -> Backend:
        """The backend, opened by the first rollout. Raises EngineError while it does not work: the run's own process
        has seen it work, so it is the world's trouble."""
        with self._opening:
            if self._closed:
                raise EngineError("No sandbox is opened any more: the worker is ending.")
            if self._backend is None:
                settings = self.settings
                try:
                    self._backend = open_backend(settings.sandbox, cache=settings.cache, run_label=settings.run_label)
                except MissingRequirement as error:
                    raise EngineError(str(error)) from error
                self._backend.reap()
            return self._backend

    def _next_sample(self, task_id: str) -> int:
        with self._lock:
            self._samples[task_id] += 1
            return self._samples[task_id] - 1

    def _keep(self, played: Played) -> None:
        """Append the episode's row. (Its step is the trainer's secret.) A full disk costs the row, not the training."""
        tokens = len(played.response["observation_tokens"])
        actions = sum(end - start for start, end in played.response["action_ranges"])
        known = {"tokens": tokens, "action_tokens": actions, "retries": played.retries}
        when = {"reward": played.response["reward"], "ended": round(time.time(), 3)}
        try:
            append(self._rows, {**plain(played.episode), **known, **when})
        except StorageError as error:
            log.warning("an episode was not written down: %s", str(error))
