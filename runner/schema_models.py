"""The recipe's grammar for models: who speaks for one, and how it is called. Part of ``runner/schema.py``."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Provider(Enum):
    """Who speaks for a model."""

    openai = "openai"
    """OpenAI, or any server that speaks its chat API when ``base_url`` is set."""
    anthropic = "anthropic"
    vllm = "vllm"
    """``vllm serve``, started and awaited by us; or, with ``base_url``, one that is already running."""
    replay = "replay"
    """A recording instead of a model: no key, no network, no cost."""


@dataclass(frozen=True)
class Vllm:
    """How ``vllm serve`` is started."""

    command: list[str] = field(default_factory=lambda: ["vllm", "serve"])
    """The program and its first arguments; the model's name, host and port follow."""
    args: list[str] = field(default_factory=list)
    """More flags, passed as they are (``--max-model-len``, ``16384``)."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables for the server."""
    start_seconds: float = 600.0
    """How long it may take until it answers."""


@dataclass(frozen=True)
class Model:
    """One model and how to call it."""

    provider: Provider = Provider.replay
    name: str = ""
    """The provider's model name. Models of one name are taken for one model, whatever their address: give each
    checkpoint that you serve yourself a name of its own."""
    base_url: str | None = None
    """Another address than the provider's own; null asks the SDK."""
    api_key_env: str | None = None
    """The NAME of the environment variable that holds the key; null for servers without keys."""
    temperature: float | None = None
    """Null leaves it to the provider. Sent only where the provider accepts it."""
    reasoning: bool = False
    """An OpenAI reasoning model: sends ``max_completion_tokens`` and ``reasoning_effort``, never a temperature."""
    reasoning_effort: str | None = None
    """``low``, ``medium`` or ``high`` for reasoning models; null leaves it to the provider."""
    concurrency: int = 16
    """Calls in flight at once, for this model."""
    timeout_seconds: float = 600.0
    """How long one HTTP request may take."""
    max_retries: int = 6
    """The SDK's own retries (429, 5xx, connection trouble), with its back-off."""
    extra_body: dict[str, Any] = field(default_factory=dict)
    """More JSON for the request body (a server's own sampling parameters)."""
    replay: str | None = None
    """For ``provider: replay``: the folder of recordings, relative to the recipes folder or absolute."""
    vllm: Vllm = Vllm()
