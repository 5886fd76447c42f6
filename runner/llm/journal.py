"""The journal: every answer that was paid for, on disk before anybody uses it.

One line a call, in one file per draw and stage: slot ``solve/000003/1/4`` is in ``<root>/solve/000003.jsonl``. A call
is found by its slot and its identity (see ``identity.py``). In memory are only the offsets of the files in use.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runner.domain.errors import StorageError
from runner.llm.base import Completion, Finish, Request, Usage
from runner.llm.identity import conversation, last_user
from runner.store import jsonl

Append = Callable[[Path, Mapping[str, Any]], None]
"""Adds a row to a file of JSON lines. Raises StorageError."""

_OPEN_SHARDS = 512
_NAME_BYTES = 200


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One answered call, as it is kept."""

    slot: str
    identity: str
    hash: str
    """Of the whole conversation that was answered."""
    last: str
    """The last message of the user in it."""
    completion: Completion


class Journal:
    """Answered calls below one folder. Thread-safe; safe for several processes as long as they ask other slots."""

    def __init__(self, root: Path, append: Append = jsonl.append) -> None:
        self.root = root
        self._append = append
        self._lock = threading.Lock()
        self._shards: OrderedDict[Path, _Shard] = OrderedDict()

    def lookup(self, request: Request, identity: str) -> Completion | None:
        """The recorded answer, ``replayed``, with ``drift`` where the conversation differs. Raises StorageError."""
        entry = self._shard(request.slot).find(request.slot, identity)
        if entry is None:
            return None
        same = entry.hash == conversation(request.messages)
        return replace(entry.completion, replayed=True, drift=None if same else entry.last)

    def record(self, request: Request, identity: str, completion: Completion) -> None:
        """Keep an answer; it is on disk on return. Raises StorageError naming the file."""
        entry = Entry(
            slot=request.slot,
            identity=identity,
            hash=conversation(request.messages),
            last=last_user(request.messages),
            completion=completion,
        )
        self._append(shard_path(self.root, request.slot), to_row(entry))

    def _shard(self, slot: str) -> "_Shard":
        path = shard_path(self.root, slot)
        with self._lock:
            shard = self._shards.pop(path, None) or _Shard(path)
            self._shards[path] = shard
            while len(self._shards) > _OPEN_SHARDS:
                self._shards.popitem(last=False)
            return shard


class _Shard:
    """The offsets of one file's entries; what others append is noticed at the next miss."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen = 0
        self._offsets: dict[tuple[str, str], tuple[int, int]] = {}

    def find(self, slot: str, identity: str) -> Entry | None:
        with self._lock:
            if (slot, identity) not in self._offsets:
                self._refresh()
            place = self._offsets.get((slot, identity))
        return None if place is None else self._read(*place)

    def _refresh(self) -> None:
        for offset, end, row in jsonl.scan(self._path, self._seen):
            entry = from_row(row)
            if entry is not None:
                self._offsets[entry.slot, entry.identity] = (offset, end)
            self._seen = end

    def _read(self, offset: int, end: int) -> Entry | None:
        try:
            with self._path.open("rb") as file:
                file.seek(offset)
                row = jsonl.decode(file.read(end - offset))
        except OSError as error:
            raise StorageError(f"cannot read {self._path}: {error.strerror}; run the same command again") from error
        return None if row is None else from_row(row)


def shard_path(root: Path, slot: str) -> Path:
    """The file that holds a slot: its first two segments, with every odd character percent-encoded."""
    segments = [safe_name(segment) for segment in slot.split("/")[:2]]
    return root.joinpath(*segments[:-1], segments[-1] + ".jsonl")


def safe_name(segment: str) -> str:
    """A segment as a file name: odd characters percent-encoded, a very long one cut and hashed."""
    name = quote(segment, safe=" ") or "%"
    name = name.replace(".", "%2E") if set(name) == {"."} else name
    if len(name) <= _NAME_BYTES:
        return name
    return f"{name[:100]}-{sha256(segment.encode()).hexdigest()[:16]}"


def entries(root: Path) -> Iterator[Entry]:
    """All entries below a folder, file by file in the order of their names, each in the order of writing."""
    for path in sorted(root.rglob("*.jsonl")):
        yield from file_entries(path)


def file_entries(path: Path) -> Iterator[Entry]:
    """The entries of one file, in the order of writing; lines that are not ours are skipped."""
    for _, _, row in jsonl.scan(path):
        entry = from_row(row)
        if entry is not None:
            yield entry


def to_row(entry: Entry) -> dict[str, Any]:
    """The JSON of one line."""
    done = entry.completion
    return {
        "slot": entry.slot,
        "identity": entry.identity,
        "hash": entry.hash,
        "reply": done.text,
        "usage": usage_row(done.usage),
        "finish": done.finish.value,
        "model": done.model,
        "seconds": round(done.seconds, 3),
        "cost": None if done.cost is None else str(done.cost),
        "last": entry.last,
    }


def from_row(row: dict[str, Any]) -> Entry | None:
    """The entry of one line; None when it is not a journal's line."""
    try:
        return Entry(
            slot=row["slot"],
            identity=row["identity"],
            hash=row["hash"],
            last=row["last"],
            completion=Completion(
                text=row["reply"],
                usage=Usage(**row["usage"]),
                finish=Finish(row["finish"]),
                model=row["model"],
                seconds=row["seconds"],
                cost=None if row["cost"] is None else Decimal(row["cost"]),
            ),
        )
    except (KeyError, TypeError, ValueError, InvalidOperation):
        return None


def usage_row(usage: Usage) -> dict[str, int]:
    """A usage as JSON."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
