"""Strict reading of a generator's reply: tagged sections, each exactly once."""

import re
from collections.abc import Sequence

from runner.agent.protocol import strip_thoughts

_FENCE = re.compile(r"\A\s*```[\w+-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)


PORTS = range(1024, 65536)
"""What an ordinary user may listen on."""


class ReplyError(ValueError):
    """The reply cannot be used; the message tells the model why."""


def sections(reply: str, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, str]:
    """The bodies of ``<name>...</name>`` for each name. Raises ReplyError for a missing, empty or repeated section.

    Thoughts (``<think>``) are removed first. A tag counts only at a line's edge, so a script may mention one.
    """
    text = strip_thoughts(reply)
    if text is None:
        raise ReplyError("a <think> is never closed")
    found = {name: _section(text, name) for name in (*required, *optional)}
    missing = [name for name in required if found[name] is None]
    if missing:
        raise ReplyError("the reply lacks " + " and ".join(f"<{name}>...</{name}>" for name in missing))
    return {name: body for name, body in found.items() if body is not None}


def ports(body: str) -> tuple[int, ...]:
    """The TCP ports of a ``<keep>`` section. Raises ReplyError."""
    words = body.replace(",", " ").split()
    numbers = [int(word) if re.fullmatch("[0-9]{1,5}", word) else 0 for word in words]
    if any(number not in PORTS for number in numbers):
        raise ReplyError(
            f"<keep> must hold TCP ports from {PORTS.start} to {PORTS.stop - 1}, not {body.strip()[:100]!r}"
        )
    return tuple(dict.fromkeys(numbers))


def _section(reply: str, name: str) -> str | None:
    opened = [m.end() for m in re.finditer(rf"^[ \t]*<{name}>", reply, re.MULTILINE)]
    closed = [m.start() for m in re.finditer(rf"</{name}>[ \t]*$", reply, re.MULTILINE)]
    if not opened and not closed:
        return None
    if len(opened) != 1 or len(closed) != 1 or closed[0] < opened[0]:
        raise ReplyError(f"<{name}> must be opened once and closed once, each tag at a line's edge")
    body = _unfence(reply[opened[0] : closed[0]])
    if not body.strip():
        raise ReplyError(f"<{name}> is empty")
    return body


def _unfence(body: str) -> str:
    fenced = _FENCE.match(body)
    text = fenced.group(1) if fenced else body
    return text.strip("\r\n").replace("\r\n", "\n") + "\n"
