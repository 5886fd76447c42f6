"""A recording in place of a model: no key, no network, no cost, the same reply every time."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from runner import schema
from runner.domain.errors import RecipeError, ReplayMiss
from runner.llm.base import Completion, Request, Usage, key_of
from runner.llm.journal import Entry, file_entries, shard_path
from runner.llm.recording import Reply, draw_of, order, read_file

_OPEN_FILES = 64
_CHARS_PER_TOKEN = 4


class ReplayClient:
    """Answers by slot from a folder of recordings (YAML, see ``recording.py``) or from a journal's folder.

    The conversation itself is not compared: a recording answers whatever is asked in its slot. Thread-safe.
    """

    def __init__(self, folder: Path, *, name: str = "replay", role: str = "model") -> None:
        """Raises RecipeError when there is no such folder or nothing recorded in it."""
        self._folder = folder
        self._name = name
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, dict[str, Reply]] = OrderedDict()
        self._yaml = is_recording(folder, role)

    def complete(self, request: Request) -> Completion:
        """The recorded reply. Raises ReplayMiss, saying what the recording holds instead."""
        began = time.monotonic()
        reply = self._replies(self._path(request.slot)).get(request.slot)
        if reply is None:
            raise ReplayMiss(self._explain(request.slot))
        return Completion(
            text=reply.text,
            usage=reply.usage or _guess(request, reply.text),
            finish=reply.finish,
            model=self._name,
            seconds=time.monotonic() - began,
            replayed=True,
        )

    def close(self) -> None:
        """Forget the files. Idempotent."""
        with self._lock:
            self._files.clear()

    def _path(self, slot: str) -> Path:
        return self._folder / f"{draw_of(slot)}.yaml" if self._yaml else shard_path(self._folder, slot)

    def _replies(self, path: Path) -> dict[str, Reply]:
        with self._lock:
            found = self._files.pop(path, None)
            if found is None:
                found = _load(path)
            self._files[path] = found
            while len(self._files) > _OPEN_FILES:
                self._files.popitem(last=False)
            return found

    def _explain(self, slot: str) -> str:
        held = self._replies(self._path(slot))
        what = _in_draw(held, slot) if held else f"it holds {_draws(self._folder)}"
        return (
            f"no recorded reply for {slot} in {self._folder}: {what}; "
            "stay within what is recorded, or use a live model (model=claude)"
        )


def is_recording(folder: Path, role: str) -> bool:
    """True for a folder of YAML recordings, False for a journal's. Raises RecipeError for any other."""
    key = f"{key_of(role)}.replay"
    if not folder.is_dir():
        raise RecipeError(f"{key} names {folder}, which is no folder; record one with `record: FOLDER`")
    if next(folder.glob("*.yaml"), None) is not None:
        return True
    if next(folder.rglob("*.jsonl"), None) is not None:
        return False
    raise RecipeError(f"{key} names {folder}, which holds no recordings (*.yaml, or a journal's *.jsonl)")


def reply_of(entry: Entry) -> Reply:
    """A journal's entry as a recorded reply."""
    done = entry.completion
    return Reply(slot=entry.slot, text=done.text, usage=done.usage, finish=done.finish)


def _load(path: Path) -> dict[str, Reply]:
    if not path.exists():
        return {}
    if path.suffix == ".yaml":
        return read_file(path)
    return {entry.slot: reply_of(entry) for entry in file_entries(path)}


def _guess(request: Request, text: str) -> Usage:
    """A hand-written recording has no usage; the context limit still wants one."""
    read = sum(len(m.content) for m in request.messages)
    return Usage(input_tokens=read // _CHARS_PER_TOKEN, output_tokens=len(text) // _CHARS_PER_TOKEN)


def _in_draw(held: Iterable[str], slot: str) -> str:
    """What there is of the missed slot's stage and draw."""
    stage = slot.split("/")[0]
    slots = sorted((s for s in held if s.split("/")[0] == stage), key=order)
    if not slots:
        return f"nothing of stage {stage!r} is recorded for draw {draw_of(slot)}"
    if stage != "solve":
        return f"draw {draw_of(slot)} has {len(slots)} recorded {stage} replies, the last {slots[-1]}"
    samples = {s.split("/")[2] for s in slots if s.count("/") > 2}
    turns = [s for s in slots if s.split("/")[:3] == slot.split("/")[:3]]
    if turns:
        return f"sample {slot.split('/')[2]} has {len(turns)} recorded turns, the last {turns[-1]}"
    return f"draw {draw_of(slot)} has {len(samples)} recorded samples (filter.n at most {len(samples)})"


def _draws(folder: Path) -> str:
    names = {path.stem for path in folder.rglob("*") if path.suffix in (".yaml", ".jsonl")}
    numbers = sorted(int(name) for name in names if name.isdecimal())
    if not numbers:
        return f"{len(names)} tasks"
    return f"draws {_ranges(numbers)}"


def _ranges(numbers: list[int]) -> str:
    """[0, 1, 2, 5] -> "0-2, 5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def replay_folder(model: schema.Model, recipes: Path, role: str) -> Path:
    """The recording a model names: absolute, or relative to the recipes folder. Raises RecipeError without one."""
    if not model.replay:
        raise RecipeError(f"{key_of(role)}.provider is replay, but {key_of(role)}.replay names no folder of recordings")
    return recipes / model.replay
