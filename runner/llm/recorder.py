"""Makes any run replayable offline: every reply, live or from the journal, also goes into a folder of recordings.

Replies are first appended to ``<folder>/.pending/`` (a journal, which survives a kill), and merged into the YAML files
on ``close``; a run that is killed leaves them there for its next attempt.
"""

import shutil
import threading
from itertools import groupby
from pathlib import Path

from runner.llm.base import Client, Completion, Request
from runner.llm.journal import Journal, entries
from runner.llm.recording import Reply, draw_of, read_file, write_file
from runner.llm.replay import reply_of
from runner.store.jsonl import unwritable

_PENDING = ".pending"
_SAME = "recorded"


class Recorder:
    """A folder that replies are recorded into. Shared by all roles; thread-safe. A context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending = Journal(folder / _PENDING)
        self._lock = threading.Lock()

    def keep(self, request: Request, completion: Completion) -> None:
        """Record a reply, unless exactly this one is there. Raises StorageError."""
        known = self._pending.lookup(request, _SAME)
        if known is None or (known.text, known.finish) != (completion.text, completion.finish):
            self._pending.record(request, _SAME, completion)

    def close(self) -> None:
        """Merge what was recorded into the YAML files. Idempotent. Raises StorageError."""
        with self._lock:
            pending = self._folder / _PENDING
            if not pending.exists():
                return
            export_recording(pending, self._folder)
            try:
                shutil.rmtree(pending)
            except OSError as error:
                raise unwritable(pending, error) from error
            self._pending = Journal(pending)

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class RecordingClient:
    """The outermost link of the chain while a run records. Closes the client it wraps, not the recorder."""

    def __init__(self, inner: Client, recorder: Recorder) -> None:
        self._inner = inner
        self._recorder = recorder

    def complete(self, request: Request) -> Completion:
        """The inner client's answer. Raises what that raises, and StorageError."""
        completion = self._inner.complete(request)
        self._recorder.keep(request, completion)
        return completion

    def close(self) -> None:
        """Close the inner client. Idempotent."""
        self._inner.close()


def export_recording(journal_root: Path, folder: Path) -> list[Path]:
    """Merge a journal's replies into a folder of recordings; the files written. Later replies to a slot win.

    Only the replies of one draw's files are in memory at once. Raises StorageError, and RecipeError for a YAML file
    that is not a recording.
    """
    written: dict[Path, None] = {}
    for draw, found in groupby(entries(journal_root), key=lambda entry: draw_of(entry.slot)):
        path = folder / f"{draw}.yaml"
        replies: dict[str, Reply] = read_file(path) if path.exists() else {}
        replies.update({entry.slot: reply_of(entry) for entry in found})
        write_file(path, replies)
        written[path] = None
    return list(written)
