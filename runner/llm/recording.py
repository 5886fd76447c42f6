"""The recording format: a folder of YAML files, one per draw, that people can read, edit and keep in git.

::

    - slot: solve/000003/0/1
      reply: |-
        <think>Count the lines.</think>
        <command>wc -l app.log</command>
      usage: {input_tokens: 812, output_tokens: 23, cached_tokens: 0}
      finish: stop

``usage`` and ``finish`` may be left out.
"""

import json
import logging
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.domain.errors import RecipeError, StorageError
from runner.llm.base import Finish, Usage
from runner.llm.journal import safe_name, usage_row
from runner.store.jsonl import unwritable

_log = logging.getLogger(__name__)
_PLAIN_SLOT = re.compile(r"[A-Za-z][\w/.-]*")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One recorded answer."""

    slot: str
    text: str
    usage: Usage | None = None
    finish: Finish = Finish.STOP


def draw_of(slot: str) -> str:
    """The part of a slot that its file is named after: the draw, or an imported task's id."""
    return safe_name([*slot.split("/"), ""][1] or "other")


def order(slot: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts slots the way they are asked for: numbers as numbers."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in slot.split("/"))


def read_file(path: Path) -> dict[str, Reply]:
    """The replies of one file by slot. Raises RecipeError naming the file and what is wrong in it."""
    try:
        items = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    replies = [_reply(item, path) for item in items or []]
    return {reply.slot: reply for reply in replies}


def write_file(path: Path, replies: dict[str, Reply]) -> None:
    """Write one file, atomically and always the same for the same replies. Raises StorageError."""
    text = "\n".join(_item(replies[slot]) for slot in sorted(replies, key=order))
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.write_text(text, encoding="utf-8", newline="")
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error


def _reply(item: Any, path: Path) -> Reply:
    try:
        usage = item.get("usage")
        reply = Reply(
            slot=item["slot"],
            text=item["reply"],
            usage=None if usage is None else Usage(**usage),
            finish=Finish(item.get("finish", "stop")),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecipeError(f"{path}: {item!r:.80} is no recorded reply ({error}); each needs slot and reply") from None
    if not isinstance(reply.slot, str) or not isinstance(reply.text, str):
        raise RecipeError(f"{path}: slot and reply must be text, in {item!r:.80}")
    return reply


def _item(reply: Reply) -> str:
    usage = "" if reply.usage is None else f"  usage: {_flow(reply.usage)}\n"
    slot = reply.slot if _PLAIN_SLOT.fullmatch(reply.slot) else json.dumps(reply.slot)
    return f"- slot: {slot}\n  reply: {_scalar(reply.text)}\n{usage}  finish: {reply.finish.value}\n"


def _flow(usage: Usage) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in usage_row(usage).items()) + "}"


def _scalar(text: str) -> str:
    """A block literal where YAML gives the same text back, else quoted."""
    block = _literal(text)
    try:
        if yaml.load(f"- slot: a\n  reply: {block}\n  finish: b\n", _Loader) == [
            {"slot": "a", "reply": text, "finish": "b"}
        ]:
            return block
    except yaml.YAMLError:
        _log.debug("a reply needs quotes in YAML")
    quoted: str = yaml.dump(text, default_style='"', allow_unicode=True, width=1 << 30)
    return quoted.rstrip("\n")


def _literal(text: str) -> str:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    indent = "2" if body[:1].isspace() else ""  # YAML cannot guess the indentation of text that is itself indented
    chomp = "-" if ends == 0 else "" if ends == 1 else "+"
    shown = "\n".join(f"    {line}" if line else "" for line in body.split("\n"))
    return f"|{indent}{chomp}\n{shown}" + "\n" * max(0, ends - 1)
