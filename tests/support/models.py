"""Requests and models for tests: small ones, and the real SDKs' clients on a loopback server."""

from dataclasses import replace
from typing import Any

from support.loopback import Loopback

from runner import schema
from runner.llm.anthropic import AnthropicClient
from runner.llm.base import Message, Request
from runner.llm.openai import OpenAIClient

KEY = "sk-test-2f6c1a9e77d04b3c"


def ask(slot: str = "solve/000003/0/0", last: str = "list the files", **more: Any) -> Request:
    """A request with a system and a user message."""
    messages = (Message(role="system", content="You are a shell."), Message(role="user", content=last))
    return replace(Request(slot=slot, messages=messages, max_tokens=64), **more)


def model_on(server: Loopback, api: str = "openai", **more: Any) -> schema.Model:
    """A model of either API that lives on a loopback server; its key is in TEST_KEY."""
    address = server.url if api == "anthropic" else server.openai_url
    model = schema.Model(
        provider=schema.Provider(api), name="tiny", base_url=address, api_key_env="TEST_KEY", max_retries=2
    )
    return replace(model, timeout_seconds=10.0, **more) if "timeout_seconds" not in more else replace(model, **more)


def client_on(server: Loopback, api: str, **more: Any) -> OpenAIClient | AnthropicClient:
    """The real SDK's client on a loopback server."""
    kind = AnthropicClient if api == "anthropic" else OpenAIClient
    return kind(model_on(server, api, **more), KEY, role="solver")
