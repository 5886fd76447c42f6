"""A vLLM model: the chat client on a server of our own, or on one that already runs."""

import threading
from dataclasses import replace
from urllib.parse import urlsplit

from runner import schema
from runner.llm.base import Completion, Request
from runner.llm.openai import OpenAIClient
from runner.llm.server import VllmServer


class VllmClient:
    """Starts the server at the first call and stops it on ``close``. Many threads may call it at once."""

    def __init__(self, model: schema.Model, server: VllmServer, api_key: str | None, *, role: str = "model") -> None:
        self._model = model
        self._server = server
        self._api_key = api_key
        self._role = role
        self._lock = threading.Lock()
        self._clients: dict[str, OpenAIClient] = {}

    def complete(self, request: Request) -> Completion:
        """Answer. Raises what the chat client and the start of the server raise."""
        return self._client(self._server.address()).complete(request)

    def close(self) -> None:
        """Close the connections and stop the server. Idempotent."""
        for client in self._clients.values():
            client.close()
        self._server.close()

    def _client(self, address: str) -> OpenAIClient:
        """A server that died and was started again has another address."""
        with self._lock:
            if address not in self._clients:
                model = replace(self._model, base_url=address)
                self._clients[address] = OpenAIClient(model, self._api_key, role=self._role)
            return self._clients[address]


def running(model: schema.Model, api_key: str | None, *, role: str = "model") -> OpenAIClient:
    """The client of a server that already runs at ``model.base_url``; ``/v1`` may be left out there."""
    address = model.base_url or ""
    if not urlsplit(address).path.strip("/"):
        address = address.rstrip("/") + "/v1"
    return OpenAIClient(replace(model, base_url=address), api_key, role=role)
