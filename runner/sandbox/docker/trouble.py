"""Whose fault a failed build is, judged by its log: the script's, or the world's."""

import re

_NETWORK = (
    r"could not resolve (host|proxy)",
    r"temporary failure (in name resolution|resolving)",
    r"name or service not known",
    r"network is unreachable",
    r"no route to host",
    r"failed to connect to \S+ port \d+",
    r"connection (timed out|refused|reset by peer)",
    r"newconnectionerror|connecttimeouterror|readtimeouterror|proxyerror|maxretryerror",
    r"failed to establish a new connection",
    r"tls handshake timeout|i/o timeout",
    r"unable to (fetch|locate) some archives|failed to fetch https?://",
    r"some index files failed to download",
    r"the requested url returned error: (403|429|5\d\d)",
    r"(http|error) ?(429|502|503|504)\b",
    r"getaddrinfo (enotfound|eai_again)|dial tcp",
)
_ENGINE = (
    r"no space left on device",
    r"disk quota exceeded",
    r"toomanyrequests|rate limit",
    r"pull access denied|failed to resolve source metadata|manifest unknown|failed to do request",
    r"cannot connect to the docker daemon|error during connect|connection error: desc",
    r"rpc error: code = unavailable|failed to solve: unavailable: |error reading from server: eof",
    r"failed to copy: |unexpected eof.*registry",
    r"did not complete successfully: network \S+ not found",
)
_NETWORK_SIGN = re.compile("|".join(_NETWORK), re.IGNORECASE)
_ENGINE_SIGN = re.compile("|".join(_ENGINE), re.IGNORECASE)
TAIL = 4000
"""Only a log's last characters count: an early warning that was survived is not why a build failed."""


def infrastructure(log: str, *, network: bool = True) -> str:
    """The line of a failed build's log that shows infrastructure trouble, or "".

    ``network=False`` for builds that have no network to begin with: there, wanting one is the script's fault.
    """
    for line in reversed(log[-TAIL:].splitlines()):
        sign = _ENGINE_SIGN.search(line) or (_NETWORK_SIGN.search(line) if network else None)
        if sign:
            return line[max(0, sign.start() - 80) :].strip()[:300]  # a progress bar may stand before it
    return ""
