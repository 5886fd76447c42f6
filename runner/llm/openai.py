"""Chat completions through OpenAI's SDK: OpenAI itself, and every server that speaks its API (vLLM among them)."""

from typing import Any

from runner import schema
from runner.llm import wire
from runner.llm.base import Completion, Finish, Request, Usage
from runner.llm.identity import temperature
from runner.llm.trouble import Endpoint, Garbage

_CAPS = ("max_tokens", "max_completion_tokens")
_FINISH = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
    "refusal": Finish.REFUSAL,
}


class OpenAIClient:
    """One model behind the chat API."""

    def __init__(self, model: schema.Model, api_key: str | None, *, role: str = "model") -> None:
        """``api_key`` None sends a dummy, for servers without keys. ``role`` only names the model in messages."""
        import openai

        self._sdk = openai
        self._model = model
        address = model.base_url or ""
        self._client = openai.OpenAI(
            api_key=api_key or wire.NO_KEY,
            base_url=model.base_url,
            max_retries=model.max_retries,
            timeout=wire.time_limit(openai, model.timeout_seconds),
            http_client=wire.http_client(openai, address, model.timeout_seconds),
        )
        self._endpoint = Endpoint.of(model, role, address=str(self._client.base_url), key=api_key)

    def complete(self, request: Request) -> Completion:
        """Answer. A conversation over the context window comes back with ``Finish.CONTEXT`` and no text.

        Raises ProviderError after all retries, MissingRequirement (key, credit) and RecipeError (model, parameters).
        """
        body = self._body(request)
        answer = self._ask(body)
        if answer.finish is Finish.CONTEXT and self._model.provider is schema.Provider.vllm:
            # vLLM refuses a prompt that leaves less room than the cap; without a cap it gives the room that is left.
            answer = self._ask({key: value for key, value in body.items() if key not in _CAPS})
        return answer

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def _ask(self, body: dict[str, Any]) -> Completion:
        create: Any = self._client.chat.completions.with_raw_response.create
        return wire.ask(
            self._sdk, lambda: create(**body).http_response.content, self._read, self._endpoint, self._model.max_retries
        )

    def _body(self, request: Request) -> dict[str, Any]:
        model = self._model
        messages = [{"role": m.role, "content": m.content} for m in request.messages]
        body: dict[str, Any] = {
            "model": model.name,
            # As an argument, the SDK walks through each message by its type hints, which is half the CPU of a call.
            "messages": [],
            "extra_body": {"messages": messages, **model.extra_body},
        }
        if model.reasoning:
            body["max_completion_tokens"] = request.max_tokens
        else:
            body["max_tokens"] = request.max_tokens
        if model.reasoning and model.reasoning_effort is not None:
            body["reasoning_effort"] = model.reasoning_effort
        warmth = temperature(model, request)
        if warmth is not None:
            body["temperature"] = warmth
        return body

    def _read(self, reply: dict[str, Any]) -> Completion:
        choices = reply.get("choices")
        if not isinstance(choices, list) or not choices:
            raise Garbage("a reply without choices")
        message = wire.item(choices[0], "message")
        refusal = wire.text_of(message.get("refusal"))
        return Completion(
            # `reasoning_content` and `reasoning` of compatible servers are thoughts, not text.
            text=wire.text_of(message.get("content")) or refusal,
            usage=_usage(wire.item(reply, "usage")),
            finish=Finish.REFUSAL if refusal else wire.finish_of(choices[0].get("finish_reason"), _FINISH),
            model=wire.text_of(reply.get("model")) or self._model.name,
        )


def _usage(usage: dict[str, Any]) -> Usage:
    """``completion_tokens`` already counts the hidden reasoning, ``prompt_tokens`` the cached part."""
    details = usage.get("prompt_tokens_details")
    return Usage(
        input_tokens=wire.count(usage, "prompt_tokens"),
        output_tokens=wire.count(usage, "completion_tokens"),
        cached_tokens=wire.count(details, "cached_tokens") if isinstance(details, dict) else 0,
    )
