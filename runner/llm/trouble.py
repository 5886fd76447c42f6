"""From what a provider's SDK raises to what a user can act on: one verdict for both SDKs, which share their shape.

=========================================  =============================================================
what happened                              verdict
=========================================  =============================================================
key refused, no right, no credit           MissingRequirement: nothing works until the user acts
unknown model, parameter refused           RecipeError, naming the keys of the recipe to look at
conversation longer than the context       a Completion with ``Finish.CONTEXT``: data, the episode ends
request refused by a content filter        a Completion with ``Finish.REFUSAL``: data
rate limit, 5xx, time-out, connection,     ProviderError, after the retries: infrastructure
garbage instead of a reply
=========================================  =============================================================
"""

import re
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from runner import schema
from runner.domain.errors import EndlessError, MissingRequirement, ProviderError, RecipeError
from runner.llm.base import Finish, key_of

_MESSAGE_CHARS = 400
_CONTEXT = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|exceeds? (the )?(available |model'?s? )?context"
    r"|exceed_context_size|longer than the (maximum )?model length|request_too_large|exceed context limit",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content_filter|content_policy|invalid_prompt|content management policy", re.IGNORECASE)
_NO_CREDIT = re.compile(r"insufficient_quota|credit balance is too low|billing_hard_limit", re.IGNORECASE)
_REASONING = re.compile(r"max_completion_tokens|unsupported[^.]*temperature|temperature[^.]*unsupported", re.IGNORECASE)

_CAP = re.compile(
    r"max_(completion_)?tokens\b.{0,60}(cannot be greater|too large|> \d)|supports at most \d+ completion tokens",
    re.IGNORECASE,
)
"""The cap on a reply is over what the model can ever give: vLLM, OpenAI and Anthropic, in this order."""


class Garbage(Exception):
    """A reply that is not one: cut JSON, an HTML page, no choices, no usage. Retried like a 5xx."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Whom a client talks to, in words for its error messages. The key is here only to be struck out of them."""

    role: str
    model: str
    provider: str
    address: str
    key_env: str | None
    timeout: float
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, model: schema.Model, role: str, *, address: str, key: str | None) -> "Endpoint":
        """The one of a recipe's model, at the address that its client really calls."""
        return cls(
            role=role,
            model=model.name,
            provider=model.provider.value,
            address=address,
            key_env=model.api_key_env,
            timeout=model.timeout_seconds,
            key=key or "",
        )

    def clean(self, text: str) -> str:
        """One short line, without the key."""
        text = text.replace(self.key, "***") if self.key else text
        text = " ".join(text.split())
        return text if len(text) <= _MESSAGE_CHARS else text[:_MESSAGE_CHARS] + "..."

    @property
    def where(self) -> str:
        """``models.solver (openai at http://host)``, without a password in the address."""
        parts = urlsplit(self.address)
        plain = self.address.replace(f"{parts.netloc}", parts.netloc.rpartition("@")[2], 1)
        return f"{key_of(self.role)} ({self.provider} at {plain})"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One failed request."""

    text: str
    """What the server (or the network) said, with its error code."""
    status: int | None = None
    timeout: bool = False


def failure_of(sdk: ModuleType, error: Exception) -> Failure:
    """Read an exception of either SDK. Anything unknown counts as a connection failure."""
    if isinstance(error, sdk.APITimeoutError):
        return Failure(text="timed out", timeout=True)
    if isinstance(error, sdk.APIStatusError):
        return Failure(text=_said(error), status=error.status_code)
    cause = error.__cause__ or error
    return Failure(text=f"{type(cause).__name__}: {cause}")


def verdict(failure: Failure, to: Endpoint) -> Finish | EndlessError:
    """What a failure, after the SDK's retries, means for the run."""
    status, said = failure.status, to.clean(failure.text)
    if failure.timeout:
        return ProviderError(
            f"{to.where} did not answer within {to.timeout:g} s; "
            f"raise {key_of(to.role)}.timeout_seconds or run again later"
        )
    if status is None:
        return ProviderError(f"{to.where} cannot be reached: {said}; check the address and the network, then run again")
    if _NO_CREDIT.search(failure.text) or status == 402:
        return MissingRequirement(f"{to.where}: no credit left ({status}: {said}); add some and run again to go on")
    if status in (400, 413, 422):
        return _bad_request(failure.text, said, status, to)
    return _by_status(status, said, to)


def garbage(why: Garbage, to: Endpoint, tries: int) -> ProviderError:
    """The verdict on a server that keeps answering garbage."""
    return ProviderError(
        f"{to.where} answered {to.clean(str(why))}, {tries} times; "
        f"check that {key_of(to.role)}.base_url speaks the API of provider {to.provider}, then run again"
    )


def _by_status(status: int, said: str, to: Endpoint) -> EndlessError:
    key = f"the key in {to.key_env}" if to.key_env else f"a call without a key ({key_of(to.role)}.api_key_env is null)"
    if status == 401:
        return MissingRequirement(f"{to.where} refused {key} (401: {said}); export a valid one and run again")
    if status == 403:
        return MissingRequirement(f"{to.where}: {key} has no right to use {to.model} (403: {said})")
    if status == 404:
        return RecipeError(
            f"{to.where} does not know {to.model} or has no such path (404: {said}); "
            f"check {key_of(to.role)}.name and .base_url"
        )
    if status == 429:
        return ProviderError(
            f"{to.where} keeps limiting the rate (429: {said}); lower {key_of(to.role)}.concurrency or run again later"
        )
    return ProviderError(f"{to.where} keeps failing ({status}: {said}); run again later, what was answered is kept")


def _bad_request(text: str, said: str, status: int, to: Endpoint) -> Finish | EndlessError:
    if status == 413 or _CONTEXT.search(text):
        return Finish.CONTEXT
    if _REFUSED.search(text):
        return Finish.REFUSAL
    return RecipeError(f"{to.where} refused the request ({status}: {said}); {_remedy(text, to.role)}")


def _remedy(text: str, role: str) -> str:
    if _CAP.search(text):
        return "lower generate.max_tokens or agent.turn_tokens, or give the model more room (vLLM: --max-model-len)"
    keys = "name, temperature, reasoning, reasoning_effort or extra_body"
    return f"check {key_of(role)}: {'reasoning=true' if _REASONING.search(text) else keys}"


def _said(error: Any) -> str:
    """The server's own words: its error object where it has one, else the body."""
    body = error.body
    detail = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(detail, dict):
        words = [str(detail[key]) for key in ("code", "type", "message", "detail") if detail.get(key)]
        words = [word for word in words if word != str(error.status_code)]
        return ": ".join(words) or str(detail)
    return str(detail or error.message)
