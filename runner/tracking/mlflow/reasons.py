"""Why tracking failed, in plain words: MLflow's own messages run over many lines."""

import errno
import re
from collections.abc import Iterator

from runner.tracking.secrets import Secrets

_LONGEST = 200
_WORDS = (
    (r"Connection refused|NewConnectionError", "nothing answers there"),
    (r"Name or service not known|NameResolutionError|Temporary failure in name resolution", "the host is unknown"),
    (r"Read timed out|ReadTimeout|ConnectTimeout|timed out", "no answer within {timeout:g} s"),
    (r"Connection aborted|Connection reset|RemoteDisconnected|Broken pipe", "the server closed the connection"),
    (r"\b401\b|UNAUTHENTICATED", "it wants a login (401)"),
    (r"\b403\b|PERMISSION_DENIED", "it does not allow that (403)"),
    (r"readonly database|Read-only file system", "it cannot be written to"),
    (r"database or disk is full|No space left", "the disk is full"),
    (r"database is locked", "another program holds the database"),
    (r"unable to open database file", "the database file cannot be opened"),
)


def reason(error: BaseException, timeout: float) -> str:
    """One short clause; ``timeout`` is the request limit in seconds."""
    chain = list(_chain(error))
    texts = " / ".join(f"{type(e).__name__}: {e}" for e in chain)
    if any(isinstance(e, OSError) and e.errno == errno.ENOSPC for e in chain):
        return "the disk is full"
    for pattern, words in _WORDS:
        if re.search(pattern, texts):
            return words.format(timeout=timeout)
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    return Secrets().text(first)[:_LONGEST]


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
