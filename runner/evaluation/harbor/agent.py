"""Our agent as Harbor loads it: the harness that the filter and training use, on Harbor's environments.

Everything that makes a transcript is shared with them: prompt, parser, turn limit, truncation (``agent/harness.py``),
the loop (``agent/loop.py``) and the persistent shell (``sandbox/shell.py``, through ``tunnel.py``). Only Harbor's own
process imports this module.
"""

import asyncio
import logging
import threading
from decimal import Decimal
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.environments.base import BaseEnvironment
from harbor.models.agent.context import AgentContext

from runner.evaluation.harbor.played import Played, play_episode
from runner.evaluation.harbor.room import open_room
from runner.evaluation.harbor.settings import read_settings
from runner.rollout.bridge import Bridge

EPISODE = "endless-episode.json"
"""In a trial's ``agent`` folder: the episode, which nobody has graded yet."""


class EndlessAgent(BaseAgent):  # type: ignore[misc]  # Harbor is not there where types are checked
    """A Harbor agent. ``settings`` is the path of an ``AgentSettings`` file."""

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        logger: logging.Logger | None = None,
        *,
        settings: str,
        **others: Any,
    ) -> None:
        """Raises RecipeError for settings that are not ours."""
        self._settings = Path(settings)
        super().__init__(
            logs_dir, model_name or read_settings(self._settings).model.name, logger, skip_model_parsing=True, **others
        )

    @staticmethod
    def name() -> str:
        return "endless"

    def version(self) -> str:
        try:
            return version("endless-terminals")
        except PackageNotFoundError:  # run from a checkout
            return "unknown"

    async def setup(self, environment: BaseEnvironment) -> None:
        """Nothing is installed in the sandbox: bash is enough."""

    async def run(self, instruction: str, environment: BaseEnvironment, context: AgentContext) -> None:
        """Play an episode. Raises EngineError, ProviderError and BudgetExceeded, which Harbor writes down as what ended
        the trial."""
        bridge = Bridge()
        trial = (self.session_id or "").removesuffix("__agent")
        played = Played(open_room(self._settings), instruction, trial=trial)
        try:
            await _in_thread(lambda: play_episode(played, environment, bridge))
        finally:
            bridge.stop()
            played.write(self.logs_dir / EPISODE)
            _tell(context, played)


async def _in_thread(work: Any) -> None:
    """Wait for work in a thread that keeps no process alive: a model may still be answering when time is up."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def target() -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=target, name="episode", daemon=True).start()
    await future


def _tell(context: AgentContext, played: Played) -> None:
    turns = played.turns
    context.n_input_tokens = sum(turn.input_tokens for turn in turns)
    context.n_cache_tokens = sum(turn.cached_tokens for turn in turns)
    context.n_output_tokens = sum(turn.output_tokens for turn in turns)
    cost: Decimal | None = played.cost
    context.cost_usd = None if cost is None else float(cost)
    context.metadata = {"turns": len(turns), "end": played.end.value}
