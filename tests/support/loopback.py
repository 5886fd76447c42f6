"""A real HTTP server on 127.0.0.1 that speaks OpenAI chat, Anthropic messages and vLLM's /health, with faults on order.

The real SDKs talk to it. ``reply`` answers a ``Call``; ``faults`` is a script of what the first requests get instead,
or ``Chance`` a seeded probability. What a client was told it used is kept in ``billed``, to compare costs with.

As a program it stands in for ``vllm serve``: ``python loopback.py NAME --host H --port P [--die | --silent]``.
"""

import hashlib
import json
import random
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Fault(Enum):
    """What a request gets instead of its answer."""

    NONE = "none"
    RATE_LIMIT = "429"
    SERVER_ERROR = "500"
    OVERLOADED = "529"
    HANG = "no answer until the client gives up"
    RESET = "connection reset"
    CUT = "connection closed in mid-body"
    TRUNCATED = "half the JSON with a fitting length"
    HTML = "an HTML page with status 200"
    EMPTY_BODY = "status 200 and nothing"
    NO_CHOICES = "JSON without choices or content"
    NO_USAGE = "JSON without usage"
    EMPTY_REPLY = "a valid answer without text"
    HUGE_REPLY = "a valid answer of five megabytes"
    CONTEXT = "400: over the context window"
    REFUSED = "400: content filter"
    BAD_REQUEST = "400: parameter refused"
    UNAUTHORIZED = "401, with the key in the message"
    FORBIDDEN = "403"
    NOT_FOUND = "404"
    NO_CREDIT = "429: insufficient quota"
    TOMORROW = "429: retry after a day"


ANSWERED = {Fault.NONE, Fault.EMPTY_REPLY, Fault.HUGE_REPLY}
HUGE = "x" * 5_000_000


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, whichever API it came through."""

    api: str
    """``openai`` or ``anthropic``."""
    model: str
    messages: tuple[tuple[str, str], ...]
    """(role, content), the system message first."""
    max_tokens: int
    body: dict[str, Any]

    def last(self) -> str:
        return self.messages[-1][1]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer in detail; a plain string will do for most."""

    text: str
    input_tokens: int | None = None
    """None: a token per four characters."""
    output_tokens: int | None = None
    cached_tokens: int = 0
    thoughts: str = ""
    """Shown as ``reasoning_content`` or a thinking block."""
    finish: str | None = None
    """The provider's own word; None: its ordinary stop."""


@dataclass(frozen=True, kw_only=True)
class Billed:
    """What one answered request used, by the server's books."""

    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int


@dataclass(frozen=True)
class Chance:
    """Each request fails with probability ``p``, the same ones for the same seed, never more than ``most`` times."""

    p: float
    kinds: tuple[Fault, ...] = (Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.TRUNCATED, Fault.RESET, Fault.EMPTY_BODY)
    seed: int = 0
    most: int = 2
    """Faults in a row for one and the same body."""


@dataclass
class Loopback:
    """A context manager around the server thread. All lists are safe to read once the callers are done."""

    reply: Callable[[Call], str | Reply] = lambda call: f"echo: {call.last()}"
    faults: Iterable[Fault] | Chance = ()
    latency: float = 0.0
    """Seconds each answer takes."""
    key: str | None = None
    """Requests with another key get 401."""
    port: int = 0
    spoil: Callable[[bytes], bytes] = bytes
    """The last word on the bytes of an answer."""
    calls: list[Call] = field(default_factory=list)
    """Every request, faults included, in the order of arrival."""
    billed: list[Billed] = field(default_factory=list)
    most_at_once: int = 0
    errors: list[Exception] = field(default_factory=list)
    """What ``reply`` raised; the first one is raised on leaving the context."""

    def __enter__(self) -> "Loopback":
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.flying = 0
        self._tries: Counter[str] = Counter()
        self._script = deque(() if isinstance(self.faults, Chance) else self.faults)
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        if self.errors and exc[0] is None:
            raise self.errors[0]

    @property
    def url(self) -> str:
        """For Anthropic, and for a vLLM address without path."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def openai_url(self) -> str:
        return self.url + "/v1"

    def fault_for(self, raw: bytes) -> Fault:
        with self.lock:
            if not isinstance(self.faults, Chance):
                return self._script.popleft() if self._script else Fault.NONE
            digest = hashlib.sha256(raw).hexdigest()
            tries, self._tries[digest] = self._tries[digest], self._tries[digest] + 1
        dice = random.Random(f"{self.faults.seed}/{digest}/{tries}")
        if tries >= self.faults.most or dice.random() >= self.faults.p:
            return Fault.NONE
        return dice.choice(self.faults.kinds)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 256

    def __init__(self, owner: Loopback) -> None:
        self.owner = owner
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", owner.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for request in list(self.open):  # kept-alive connections wait for a next request that will not come
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # clients hang up; that is their right
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._send(200 if self.path == "/health" else 404, b"{}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        call = _parse(self.path, json.loads(raw))
        if call is None:
            self._error(404, "not_found_error", f"no such path {self.path}")
            return
        owner = self.server.owner
        with owner.lock:
            owner.calls.append(call)
            owner.flying += 1
            owner.most_at_once = max(owner.most_at_once, owner.flying)
        try:
            self._answer(call, owner.fault_for(raw))
        finally:
            with owner.lock:
                owner.flying -= 1

    def _answer(self, call: Call, fault: Fault) -> None:
        owner, key = self.server.owner, self._key()
        if owner.key is not None and key != owner.key:
            fault = Fault.UNAUTHORIZED
        if fault not in ANSWERED:
            self._fail(call, fault, key)
            return
        try:
            made = owner.reply(call) if fault is Fault.NONE else "" if fault is Fault.EMPTY_REPLY else HUGE
        except Exception as error:  # the test's own mistake: told to the client, raised at the end
            owner.errors.append(error)
            self._error(400, "reply_failed", f"{type(error).__name__}: {error}")
            return
        reply = made if isinstance(made, Reply) else Reply(text=made)
        owner.stopping.wait(owner.latency)
        bill = _bill(call, reply)
        with owner.lock:
            owner.billed.append(bill)
        self._send(200, owner.spoil(json.dumps(_render(call, reply, bill)).encode()))

    def _fail(self, call: Call, fault: Fault, key: str) -> None:
        reply = Reply(text="a fair answer that never arrives whole")
        whole = _render(call, reply, _bill(call, reply))
        body = json.dumps(whole).encode()
        if fault is Fault.HANG:
            self.server.owner.stopping.wait(30)
            self.close_connection = True
        elif fault is Fault.RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
        elif fault is Fault.CUT:
            self._send(200, body[: len(body) // 2], length=len(body))
            self.close_connection = True
        elif fault is Fault.TRUNCATED:
            self._send(200, body[: len(body) // 2])
        elif fault is Fault.HTML:
            self._send(200, b"<html><body>Please log in to the hotel's network</body></html>", kind="text/html")
        elif fault is Fault.EMPTY_BODY:
            self._send(200, b"")
        elif fault is Fault.NO_CHOICES:
            self._send(200, json.dumps({k: v for k, v in whole.items() if k not in ("choices", "content")}).encode())
        elif fault is Fault.NO_USAGE:
            self._send(200, json.dumps({k: v for k, v in whole.items() if k != "usage"}).encode())
        else:
            self._error(*_STATUS[fault], wait="86400" if fault is Fault.TOMORROW else None, key=key)

    def _error(self, status: int, code: str, message: str, *, wait: str | None = None, key: str = "") -> None:
        error = {"type": code, "code": code, "message": message.replace("{key}", key)}
        # The SDKs obey this header, which keeps the tests quick.
        headers = {"retry-after": wait} if wait else {"retry-after-ms": "1"}
        self._send(status, json.dumps({"type": "error", "error": error}).encode(), headers=headers)

    def _send(
        self, status: int, body: bytes, *, kind: str = "application/json", length: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def _key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")


_STATUS: dict[Fault, tuple[int, str, str]] = {
    Fault.RATE_LIMIT: (429, "rate_limit_error", "slow down"),
    Fault.TOMORROW: (429, "rate_limit_error", "come back tomorrow"),
    Fault.NO_CREDIT: (429, "insufficient_quota", "You exceeded your current quota"),
    Fault.SERVER_ERROR: (500, "api_error", "something broke"),
    Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
    Fault.CONTEXT: (400, "context_length_exceeded", "This model's maximum context length is 4096 tokens"),
    Fault.REFUSED: (400, "content_filter", "The response was filtered"),
    Fault.BAD_REQUEST: (400, "unsupported_parameter", "Unsupported parameter: use 'max_completion_tokens' instead"),
    Fault.UNAUTHORIZED: (401, "authentication_error", "Incorrect API key provided: {key}"),
    Fault.FORBIDDEN: (403, "permission_error", "not allowed"),
    Fault.NOT_FOUND: (404, "model_not_found", "The model does not exist"),
}


def _parse(path: str, body: dict[str, Any]) -> Call | None:
    messages = tuple((m["role"], m["content"]) for m in body.get("messages", ()))
    if path == "/v1/chat/completions":
        cap = body.get("max_completion_tokens") or body.get("max_tokens") or 0
        return Call(api="openai", model=body["model"], messages=messages, max_tokens=cap, body=body)
    if path == "/v1/messages":
        messages = (("system", body["system"]), *messages) if "system" in body else messages
        return Call(api="anthropic", model=body["model"], messages=messages, max_tokens=body["max_tokens"], body=body)
    return None


def _bill(call: Call, reply: Reply) -> Billed:
    read, written = sum(len(text) for _, text in call.messages) // 4 + 1, len(reply.text + reply.thoughts) // 4 + 1
    return Billed(
        model=call.model,
        input_tokens=read if reply.input_tokens is None else reply.input_tokens,
        output_tokens=written if reply.output_tokens is None else reply.output_tokens,
        cached_tokens=reply.cached_tokens,
    )


def _render(call: Call, reply: Reply, bill: Billed) -> dict[str, Any]:
    return _openai(call, reply, bill) if call.api == "openai" else _anthropic(call, reply, bill)


def _openai(call: Call, reply: Reply, bill: Billed) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.thoughts:
        message["reasoning_content"] = reply.thoughts
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": f"{call.model}-2026-01-01",
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish or "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": bill.input_tokens,
            "completion_tokens": bill.output_tokens,
            "total_tokens": bill.input_tokens + bill.output_tokens,
            "prompt_tokens_details": {"cached_tokens": bill.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": len(reply.thoughts) // 4},
        },
    }


def _anthropic(call: Call, reply: Reply, bill: Billed) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    if reply.thoughts:
        content.insert(0, {"type": "thinking", "thinking": reply.thoughts, "signature": "s"})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{call.model}-20260101",
        "content": content,
        "stop_reason": reply.finish or "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": bill.input_tokens - bill.cached_tokens,
            "output_tokens": bill.output_tokens,
            "cache_read_input_tokens": bill.cached_tokens,
            "cache_creation_input_tokens": 0,
        },
    }


def main(args: list[str]) -> None:
    """Stand in for ``vllm serve``."""
    print("loopback: loading the weights of", args[0], flush=True)
    if "--die" in args:
        sys.exit("loopback: CUDA out of memory")
    if "--silent" in args:
        time.sleep(600)
    with Loopback(port=int(args[args.index("--port") + 1])):
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1:])
