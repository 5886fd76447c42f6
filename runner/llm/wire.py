"""What both provider clients share: the HTTP client, the retries of garbage, and reading JSON without trusting it."""

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from runner.domain.errors import EndlessError
from runner.llm.base import Completion, Finish
from runner.llm.trouble import Endpoint, Garbage, failure_of, garbage, verdict

NO_KEY = "no-key-needed"
"""Sent where a server needs no key; the SDKs want one. Also keeps them from looking for one on their own."""

_FIRST_DELAY = 0.5
_MAX_DELAY = 8.0
_MAX_RETRY_AFTER = 120.0
_CONNECT_SECONDS = 10.0
_SHOWN_BYTES = 80


def ask(
    sdk: ModuleType,
    send: Callable[[], bytes],
    read: Callable[[dict[str, Any]], Completion],
    to: Endpoint,
    retries: int,
) -> Completion:
    """Send until a reply can be read. The SDK retries what HTTP shows to be wrong; this, what only the body does.

    Raises MissingRequirement, RecipeError or ProviderError, none of which carries the key.
    """
    began = time.monotonic()
    for attempt in range(retries + 1):
        tried = _try(sdk, send, read, to)
        if isinstance(tried, EndlessError):
            # Not raised where it was caught: the SDK's exception holds the request, whose headers hold the key.
            raise tried
        if isinstance(tried, Completion):
            return replace(tried, seconds=time.monotonic() - began)
        trouble = tried
        if attempt < retries:
            time.sleep(_delay(attempt))
    raise garbage(trouble, to, retries + 1)


def _try(
    sdk: ModuleType, send: Callable[[], bytes], read: Callable[[dict[str, Any]], Completion], to: Endpoint
) -> Completion | Garbage | EndlessError:
    try:
        return read(_json(send()))
    except Garbage as error:
        return error
    except (sdk.APIError, OSError) as error:
        outcome = verdict(failure_of(sdk, error), to)
    return outcome if isinstance(outcome, EndlessError) else Completion(text="", finish=outcome, model=to.model)


def http_client(sdk: ModuleType, address: str, timeout: float) -> Any:
    """The SDK's own HTTP client, except: no proxy for this machine's own servers, and no wait without end."""
    return sdk.DefaultHttpxClient(
        timeout=time_limit(sdk, timeout),
        trust_env=not is_loopback(address),
        event_hooks={"response": [_refuse_long_waits]},
    )


def time_limit(sdk: ModuleType, timeout: float) -> Any:
    """Seconds for an answer; a connection is made sooner or not at all."""
    return sdk.Timeout(timeout, connect=min(_CONNECT_SECONDS, timeout))


def is_loopback(address: str) -> bool:
    """Whether an address is on this machine."""
    host = urlsplit(address).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def text_of(value: Any) -> str:
    """A reply's text as valid Unicode; None is empty. Raises Garbage for anything but a string."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Garbage(f"content that is no text ({type(value).__name__})")
    return value.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate could not be stored


def item(value: Any, key: str) -> dict[str, Any]:
    """An object inside an object. Raises Garbage when it is not there."""
    found = value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise Garbage(f"a reply without {key}")
    return found


def count(value: dict[str, Any], key: str) -> int:
    """A token count; 0 when absent. Raises Garbage when it is not a number."""
    found = value.get(key) or 0
    if not isinstance(found, int) or found < 0:
        raise Garbage(f"{key} that is no count")
    return found


def finish_of(reason: Any, table: dict[str, Finish]) -> Finish:
    """The finish reason; one we do not know is an ordinary stop."""
    if reason in ("abort", "error"):
        raise Garbage(f"a generation that the server ended with {reason!r}")
    return table.get(str(reason), Finish.STOP)


def _json(body: bytes) -> dict[str, Any]:
    start = body[:_SHOWN_BYTES].decode("utf-8", "replace")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        what = "with an empty body" if not body.strip() else f"{len(body)} bytes that are no whole JSON ({start!r} ...)"
        raise Garbage(what) from error
    if not isinstance(value, dict):
        raise Garbage(f"JSON that is no object ({start!r})")
    return value


def _delay(attempt: int) -> float:
    return float(min(_FIRST_DELAY * 2**attempt, _MAX_DELAY)) * (1 - 0.25 * random.random())


def _refuse_long_waits(response: Any) -> None:
    """A server that says "come back tomorrow" is an error now, not a thread that sleeps until then."""
    try:
        wait = float(response.headers.get("retry-after", "0"))
    except ValueError:
        return
    if wait > _MAX_RETRY_AFTER:
        response.headers["x-should-retry"] = "false"
