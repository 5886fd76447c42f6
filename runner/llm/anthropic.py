"""Messages through Anthropic's SDK: the system prompt on its own, no sampling parameters, thinking left out."""

from typing import Any

from runner import schema
from runner.llm import wire
from runner.llm.base import Completion, Finish, Message, Request, Usage
from runner.llm.trouble import Endpoint, Garbage

_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT,
}
_EMPTY = "(empty)"
"""The API refuses a message without text, but a model may well have answered with none."""


class AnthropicClient:
    """One model behind the messages API. Many threads may call it at once."""

    def __init__(self, model: schema.Model, api_key: str | None, *, role: str = "model") -> None:
        """``api_key`` None sends a dummy, for servers without keys. ``role`` only names the model in messages."""
        import anthropic

        self._sdk = anthropic
        self._model = model
        self._client = anthropic.Anthropic(
            api_key=api_key or wire.NO_KEY,
            base_url=model.base_url,
            max_retries=model.max_retries,
            timeout=wire.time_limit(anthropic, model.timeout_seconds),
            http_client=wire.http_client(anthropic, model.base_url or "", model.timeout_seconds),
        )
        self._endpoint = Endpoint.of(model, role, address=str(self._client.base_url), key=api_key)

    def complete(self, request: Request) -> Completion:
        """Answer. A conversation over the context window comes back with ``Finish.CONTEXT``.

        Raises ProviderError after all retries, MissingRequirement (key, credit) and RecipeError (model, parameters).
        """
        body = self._body(request)
        create: Any = self._client.messages.with_raw_response.create
        return wire.ask(
            self._sdk, lambda: create(**body).http_response.content, self._read, self._endpoint, self._model.max_retries
        )

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        system = "\n\n".join(m.content for m in request.messages if m.role == "system")
        body: dict[str, Any] = {
            "model": self._model.name,
            "max_tokens": request.max_tokens,
            "messages": [_message(m) for m in request.messages if m.role != "system"],
            "extra_body": self._model.extra_body or None,
            # Per request, or the SDK refuses long replies that are not streamed.
            "timeout": wire.time_limit(self._sdk, self._model.timeout_seconds),
        }
        if system:
            body["system"] = system
        return body

    def _read(self, reply: dict[str, Any]) -> Completion:
        blocks = reply.get("content")
        if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
            raise Garbage("a reply without content")
        return Completion(
            text="".join(wire.text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
            usage=_usage(wire.item(reply, "usage")),
            finish=wire.finish_of(reply.get("stop_reason"), _FINISH),
            model=wire.text_of(reply.get("model")) or self._model.name,
        )


def _message(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": message.content if message.content.strip() else _EMPTY}


def _usage(usage: dict[str, Any]) -> Usage:
    """Here ``input_tokens`` is only what no cache was involved in: the three parts make up what was read."""
    read = wire.count(usage, "cache_read_input_tokens")
    written = wire.count(usage, "cache_creation_input_tokens")
    return Usage(
        input_tokens=wire.count(usage, "input_tokens") + read + written,
        output_tokens=wire.count(usage, "output_tokens"),
        cached_tokens=read,
    )
