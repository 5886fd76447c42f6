"""The first messages of every stage: who the model is, and the one thing it is asked for."""

from typing import Any

from runner.llm.base import Message
from runner.prompts import PromptSet
from runner.schema import Config


def opening(config: Config, prompts: PromptSet, stage: str, **values: Any) -> tuple[Message, ...]:
    """The system message and the stage's own template (``describe``, ``environment``, ``final``), filled."""
    return (
        Message(role="system", content=prompts.render("system", max_turns=config.agent.max_turns)),
        Message(role="user", content=prompts.render(stage, **values)),
    )
