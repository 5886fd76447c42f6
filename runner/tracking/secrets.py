"""Keeps secrets out of what is tracked.

A recipe only names the environment variables that hold keys, but keys leak in other ways: into an error message, a
server's command line, a URL. So every text that leaves for MLflow or for a report passes here: values of environment
variables that look secret are masked wherever they occur, and so are credentials in URLs and values of secret-looking
settings.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
_NAME = re.compile(r"(^|_|-)(api_?key|key|token|secret|password|passwd|credentials?|authorization)$", re.IGNORECASE)
_USERINFO = re.compile(r"(?<=://)[^/@\s'\"]+@")
_FLAG = re.compile(r"^--?[\w-]*(key|token|secret|password)$", re.IGNORECASE)
_FLAG_WITH_VALUE = re.compile(r"^(--?[\w-]*(?:key|token|secret|password)=).*$", re.IGNORECASE)
_SHORTEST = 8
"""Shorter values (``1``, ``none``) would mask ordinary words and are no keys."""


class Secrets:
    """Masks what must not be published. The environment is read once, when the run begins."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        values = {v for k, v in variables.items() if _NAME.search(k) and len(v) >= _SHORTEST}
        longest_first = sorted(values, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, longest_first))) if values else None

    def text(self, value: str) -> str:
        """The text with every known secret masked."""
        if self._values is not None:
            value = self._values.sub(MASK, value)
        return _USERINFO.sub(f"{MASK}@", value)

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A table's row: its column names mean nothing here, only its texts are masked."""
        return {k: self.text(v) if isinstance(v, str) else v for k, v in row.items()}

    def value(self, value: Any, name: str = "") -> Any:
        """A nested value with secrets masked; ``name`` is the key it was found under."""
        if isinstance(value, str):
            return MASK if value and _NAME.search(name) else self.text(value)
        if isinstance(value, Mapping):
            if name == "env":  # environment of a program we start: the names are enough
                return dict.fromkeys(value, MASK)
            return {k: self.value(v, str(k)) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return self._arguments(value)
        return value

    def _arguments(self, items: list[Any] | tuple[Any, ...]) -> list[Any]:
        """A list, which may be a command line: ``--api-key VALUE`` and ``--api-key=VALUE`` lose the value."""
        masked = [self.value(item) for item in items]
        for i, item in enumerate(masked):
            if isinstance(item, str):
                masked[i] = _FLAG_WITH_VALUE.sub(rf"\g<1>{MASK}", item)
                if i > 0 and isinstance(items[i - 1], str) and _FLAG.match(items[i - 1]):
                    masked[i] = MASK
        return masked
