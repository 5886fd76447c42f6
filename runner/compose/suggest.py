"""Did you mean ...? The nearest valid names to a mistyped one."""

import difflib
from collections.abc import Iterable


def nearest(word: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like ``word``, best first: by spelling, else those that contain it."""
    known = list(dict.fromkeys(names))
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lowered, n=count, cutoff=0.6)
    containing = [name for name in known if len(word) >= 3 and word.lower() in name.lower()]
    return [lowered[name] for name in close] or containing[:count]


def nearest_keys(key: str, keys: Iterable[str], count: int = 3) -> list[str]:
    """The dotted keys most like ``key``: first its misspelt siblings, then the same last part elsewhere."""
    known = list(dict.fromkeys(keys))
    parent, _, last = key.rpartition(".")
    siblings = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == parent}
    beside = [siblings[name] for name in nearest(last, siblings, count)]
    elsewhere = [name for name in known if name.rpartition(".")[2] == last]
    return (beside or elsewhere or nearest(key, known, count))[:count]


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """``; did you mean a or b?``, or nothing when nothing is near."""
    return phrase(nearest(word, names))


def phrase(names: Iterable[str]) -> str:
    """``; did you mean a or b?`` for names already found; empty for none."""
    found = " or ".join(names)
    return f"; did you mean {found}?" if found else ""
