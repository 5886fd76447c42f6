"""What the next task is about: seeded, weighted label draws over the dimensions of a taxonomy.

Draw i of seed s is a pure function of (taxonomy, s, i). No generator state is shared, so batch size, order and
resumption change nothing, and each dimension hashes its own name, so adding or dropping one leaves the others' draws
as they were. Hashes are SHA-256, the same on every Python.

* ``independent`` is a weighted race (exponential clocks, Efraimidis and Spirakis 2006; also known as weighted
  rendezvous hashing): value v rings after -ln(u)/w_v, the first one is drawn, with probability w_v / sum(w). A value
  that is added or re-weighted moves only the draws that it wins or loses, so that ablations stay comparable.
* ``stratified`` cuts the draws into blocks. Weights become whole numbers in lowest terms; where their sum T is at most
  ``MAX_BLOCK`` a block has T draws and holds each value exactly as often as its weight says, in a seeded order (of the
  values as they are listed: another listing is another sequence). A larger T (weights such as 0.123457) gets blocks of
  ``MAX_BLOCK`` draws by systematic sampling: each value appears its share of the block, rounded down or up, and the
  starting points follow the golden ratio from block to block so that the roundings even out.
"""

import hashlib
import math
from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

from runner.domain.errors import RecipeError
from runner.schema import Dimension, Sampling, Taxonomy

MAX_BLOCK = 1000
"""The longest stratified block, in draws."""

_GOLDEN = (math.sqrt(5) - 1) / 2
_Weights = tuple[tuple[str, float], ...]


def draw(taxonomy: Taxonomy, seed: int, index: int) -> dict[str, str]:
    """The labels of draw ``index`` (from 0): one value per dimension that is not dropped, in the taxonomy's order.

    Raises RecipeError when a dimension has nothing to draw from.
    """
    if index < 0:
        raise ValueError(f"draws are numbered from 0, not {index}")
    pick = _stratified if taxonomy.sampling is Sampling.stratified else _independent
    labels = {}
    for name, dimension in taxonomy.dimensions.items():
        if dimension is None:
            continue
        weights = _weights(name, dimension)
        labels[name] = dimension.fixed if dimension.fixed is not None else pick(weights, f"{seed}/{name}", index)
    return labels


def check(taxonomy: Taxonomy) -> None:
    """Raise RecipeError for the first dimension that cannot be drawn from."""
    for name, dimension in taxonomy.dimensions.items():
        if dimension is not None:
            _weights(name, dimension)


def combinations(taxonomy: Taxonomy) -> int:
    """How many different label sets this taxonomy can give."""
    sizes: Mapping[str, int] = {
        name: 1 if dimension.fixed is not None else len(_weights(name, dimension))
        for name, dimension in taxonomy.dimensions.items()
        if dimension is not None
    }
    return math.prod(sizes.values())


def _weights(name: str, dimension: Dimension) -> _Weights:
    """The values that can occur, in the taxonomy's order."""
    key = f"taxonomy.dimensions.{name}"
    for value, weight in dimension.values.items():
        if not (weight >= 0 and math.isfinite(weight)):
            raise RecipeError(f"{key}.values: {value!r} has weight {weight}; a weight is 0 or a positive number")
    if dimension.fixed is not None:
        if not dimension.fixed.strip():
            raise RecipeError(f"{key}.fixed is empty; name a value, or set {key}=null to drop the dimension")
        return ()
    weights = tuple((value, weight) for value, weight in dimension.values.items() if weight > 0)
    if not weights:
        what = "has only weights of 0" if dimension.values else "has no values"
        raise RecipeError(f"{key} {what}; give one a positive weight, set `fixed`, or set {key}=null to drop it")
    return weights


def _independent(weights: _Weights, stream: str, index: int) -> str:
    begun = _hash(stream, index, "")

    def rings(item: tuple[str, float]) -> float:
        clock = begun.copy()
        clock.update(item[0].encode())
        return -math.log(_uniform(clock.digest())) / item[1]

    return min(weights, key=rings)[0]


def _stratified(weights: _Weights, stream: str, index: int) -> str:
    values, edges = _blocks(weights)
    size = min(edges[-1], MAX_BLOCK)
    block, place = divmod(index, size)
    rank = _shuffled(stream, block, size)[place]
    start = (_uniform(_hash(stream, "start").digest()) + block * _GOLDEN) % 1.0
    position = (rank * edges[-1] + int(start * edges[-1])) // size
    return values[bisect_right(edges, position)]


@lru_cache(maxsize=256)
def _blocks(weights: _Weights) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Values and the cumulative sums of their weights as whole numbers in lowest terms."""
    shares = [Fraction(str(weight)) for _, weight in weights]
    scale = math.lcm(*(share.denominator for share in shares))
    counts = [int(share * scale) for share in shares]
    common = math.gcd(*counts)
    return tuple(value for value, _ in weights), tuple(accumulate(count // common for count in counts))


@lru_cache(maxsize=256)
def _shuffled(stream: str, block: int, size: int) -> tuple[int, ...]:
    """The seeded order of one block: its ranks sorted by their hashes."""
    return tuple(sorted(range(size), key=lambda rank: _hash(stream, "block", block, rank).digest()))


def _uniform(digest: bytes) -> float:
    """A number in (0, 1], never 0 so that its logarithm exists."""
    return ((int.from_bytes(digest[:8]) >> 11) + 1) / 2**53


def _hash(*parts: object) -> "hashlib._Hash":
    return hashlib.sha256("\0".join(str(part) for part in parts).encode())
