"""Near-duplicates among instructions: MinHash LSH to find candidates, the exact Jaccard similarity to decide."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

_WORD = re.compile(r"\w+")
_PERMUTATIONS = 128


def shingles(text: str, size: int = 3) -> frozenset[str]:
    """The set of word ``size``-grams of a text, lower-cased; a text of fewer words is one shingle."""
    words = _WORD.findall(text.lower())
    if len(words) < size:
        return frozenset([" ".join(words)])
    return frozenset(" ".join(words[i : i + size]) for i in range(len(words) - size + 1))


def jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    """|a and b| / |a or b|; 1.0 for two empty sets."""
    return len(a & b) / len(a | b) if a or b else 1.0


@dataclass
class SimilarityIndex:
    """Texts seen so far. ``threshold`` is the Jaccard similarity from which two count as near-duplicates.

    The LSH works at half the threshold: it proposes more candidates than needed, and of pairs exactly at the default
    threshold (0.8) misses one in twenty million ((1 - s^r)^b with r = 4 rows and b = 32 bands).
    """

    threshold: float
    _shingles: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from datasketch import MinHashLSH  # imported late: it brings scipy

        self._lsh = MinHashLSH(threshold=max(0.1, self.threshold * 0.5), num_perm=_PERMUTATIONS)

    def add(self, key: str, text: str) -> None:
        """Remember a text."""
        grams = shingles(text)
        self._shingles[key] = grams
        self._lsh.insert(key, _minhash(grams))

    def nearest(self, text: str) -> tuple[str, float] | None:
        """The most similar remembered text at or over the threshold, as (key, similarity), or None."""
        if not self._shingles:
            return None
        grams = shingles(text)
        scored = [(jaccard(grams, self._shingles[key]), key) for key in self._lsh.query(_minhash(grams))]
        best = max(scored, key=lambda pair: (pair[0], pair[1]), default=None)
        return (best[1], best[0]) if best and best[0] >= self.threshold else None


def find_duplicates(items: Iterable[tuple[str, str]], threshold: float) -> Iterator[tuple[str, str, float]]:
    """Go through (key, text) in order; yield (key, earlier key, similarity) for each near-duplicate of a kept one."""
    index = SimilarityIndex(threshold)
    for key, text in items:
        match = index.nearest(text)
        if match:
            yield key, match[0], match[1]
        else:
            index.add(key, text)


def load() -> None:
    """Import what an index needs (scipy: half a second), for a caller who knows a moment when nobody waits for it."""
    import datasketch  # noqa: F401


@lru_cache(maxsize=1)  # a text is looked up in one index after another, and then added
def _minhash(grams: frozenset[str]) -> Any:
    sketch = _blank().copy()
    sketch.update_batch([gram.encode() for gram in sorted(grams)])
    return sketch


@cache
def _blank() -> Any:
    """Copied rather than made anew: its permutations are drawn one by one."""
    from datasketch import MinHash

    return MinHash(num_perm=_PERMUTATIONS, seed=1)
