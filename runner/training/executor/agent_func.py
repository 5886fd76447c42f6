"""The file for OpenRLHF's ``--train.agent_func_path``: loaded by path in each rollout worker, once."""

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase

from runner.training.executor.settings import read_settings
from runner.training.executor.worker import Worker


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc]  # OpenRLHF has no types
    """OpenRLHF's name for whoever plays an episode."""

    def __init__(self) -> None:
        self._worker = Worker(read_settings())

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """See ``worker.Worker.execute``."""
        return await self._worker.execute(prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine)
