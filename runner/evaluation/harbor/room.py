"""What the trials of a job share inside Harbor: one client of the model on the run's account, and whose turn they take.

The journal finds an answer by its slot, and Harbor gives every trial a new name. So a trial whose task was begun before
takes the place of one that was removed without a score: the answers that were paid for are its first ones.
"""

import atexit
import threading
from functools import cache
from pathlib import Path

from runner.domain.plain import fingerprint
from runner.evaluation.harbor.job import JOB
from runner.evaluation.harbor.results import read_object
from runner.evaluation.harbor.settings import AgentSettings, read_settings
from runner.llm.base import Client, Completion, Request
from runner.llm.factory import Clients
from runner.rollout.bridge import Abandoned
from runner.store.jsonl import write_json

ROLE = "eval.terminalbench"
PLACES = "places"
"""The folder of who plays which attempt, beside the settings; one file a task."""
LAST_SECONDS = 60.0
"""How long an answer that is still awaited may take when Harbor ends: it is paid for, and the journal wants it."""


class Room:
    """Made once in Harbor's process. Thread-safe."""

    def __init__(self, settings: AgentSettings, folder: Path) -> None:
        """``folder`` is the job's, with the settings in it. Raises RecipeError, MissingRequirement, StorageError."""
        self.settings = settings
        self._places = folder / PLACES
        self._trials = folder / JOB
        self._lock = threading.Lock()
        self._clients = Clients(settings.account)
        self._asked = _Awaited(self._clients.open(settings.model, ROLE))

    @property
    def client(self) -> Client:
        """The model, for all trials. It is closed with the room."""
        return self._asked

    def slot(self, trial: str, instruction: str) -> str:
        """Where the journal keeps a trial's answers. Raises StorageError."""
        task = fingerprint(instruction)
        path = self._places / f"{task}.json"
        with self._lock:
            holders: list[str] = (read_object(path) or {}).get("trials", [])
            if trial not in holders:
                place = next((i for i, name in enumerate(holders) if not (self._trials / name).is_dir()), len(holders))
                holders[place : place + 1] = [trial]
                write_json(path, {"trials": holders})
            return f"harbor/{task}/{holders.index(trial)}"

    def close(self) -> None:
        """Ask nothing new, wait for what is awaited, let go of the model. Raises StorageError."""
        self._asked.drain(LAST_SECONDS)
        self._clients.close()


@cache
def open_room(settings: Path) -> Room:
    """The room of a job's settings file; it is closed when the process ends. Raises what ``Room`` raises."""
    room = Room(read_settings(settings), settings.parent)
    atexit.register(room.close)
    return room


class _Awaited:
    """A client that knows how many answers are awaited."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._changed = threading.Condition()
        self._awaited = 0
        self._over = False

    def complete(self, request: Request) -> Completion:
        """The client's answer. Raises Abandoned once it is drained."""
        with self._changed:
            if self._over:
                raise Abandoned
            self._awaited += 1
        try:
            return self._client.complete(request)
        finally:
            with self._changed:
                self._awaited -= 1
                self._changed.notify_all()

    def drain(self, seconds: float) -> None:
        """Let nobody ask any more, and wait for those who did."""
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: not self._awaited, seconds)

    def close(self) -> None:
        """The client belongs to its room."""
