"""Keys never belong in a recipe: it is frozen next to the results, logged to MLflow and shared."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.domain.errors import RecipeError

_LOOKS_SECRET = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{12,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|hf_[A-Za-z0-9]{20,}"
    r"|AIza[A-Za-z0-9_-]{30,}|xox[abpr]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|glpat-[\w-]{16,}|gsk_[A-Za-z0-9]{20,}"
    r"|(?i:bearer) +[A-Za-z0-9._-]{16,})|://[^/\s:@]+:[^/\s@]+@"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def refuse_secrets(values: Mapping[str, Any]) -> None:
    """Raise RecipeError when a value looks like a key. The message names where, never the value."""
    for key, text in _texts(values, ""):
        if key.endswith("api_key_env") and not _VARIABLE.fullmatch(text):
            raise RecipeError(f"{key} holds something that is not a variable's name; {_REMEDY}")
        if _LOOKS_SECRET.search(text):
            raise RecipeError(f"{key} looks like a secret, which a recipe must not hold; {_REMEDY}")


def refuse_secret_words(words: tuple[str, ...]) -> None:
    """The same for the command line, before anything repeats it."""
    for word in words:
        if _LOOKS_SECRET.search(word):
            key = word.partition("=")[0]
            shown = "an argument" if _LOOKS_SECRET.search(key) else key
            raise RecipeError(f"{shown} looks like a secret, which a recipe must not hold; {_REMEDY}")


_REMEDY = "put the key into an environment variable and its NAME here (api_key_env: OPENAI_API_KEY)"


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(str(name), key)
            yield from _texts(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{key}[{index}]")
    elif isinstance(value, str):
        yield key, value
