"""What makes two calls the same call: the part of the journal's key that is not the slot."""

import hashlib
import json
from typing import Any

from runner import schema
from runner.llm.base import Message, Request


def temperature(model: schema.Model, request: Request) -> float | None:
    """What is sent: the request's wish, else the model's own; never where the provider refuses the parameter."""
    if model.provider is schema.Provider.anthropic or model.reasoning:
        return None
    return model.temperature if request.temperature is None else request.temperature


def identity(model: schema.Model, request: Request) -> str:
    """SHA-256 over the model, its sampling and the request's scope and head.

    A model is its provider and its name, wherever it is served: a server may move in mid-run.

    Later messages are left out on purpose: when an episode runs again after a crash its commands may print something
    else (a date), and an answer that was paid for must still be found. So is their token cap, which shrinks with the
    room that such output leaves; the settings it comes from are in the scope.
    """
    cap = request.max_tokens if request.messages == request.head else None
    return _digest(
        [
            [model.provider.value, model.name, model.reasoning, model.reasoning_effort],
            [temperature(model, request), cap, model.extra_body],
            request.scope,
            _plain(request.head),
        ]
    )


def conversation(messages: tuple[Message, ...]) -> str:
    """SHA-256 over a whole conversation."""
    return _digest(_plain(messages))


def last_user(messages: tuple[Message, ...]) -> str:
    """The newest message of the user; empty when there is none."""
    return next((m.content for m in reversed(messages) if m.role == "user"), "")


def _plain(messages: tuple[Message, ...]) -> list[list[str]]:
    return [[m.role, m.content] for m in messages]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
