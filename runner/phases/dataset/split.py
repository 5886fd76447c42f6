"""Which tasks are held out, and which prompts are too long to train on."""

import random
from collections.abc import Callable, Iterable

_CHARS_PER_TOKEN = 4


def split(ids: Iterable[str], *, dev_tasks: int, max_dev_share: float, seed: int) -> tuple[list[str], list[str]]:
    """Divide task ids into (train, dev), each in the shuffle's order, whatever the order they came in.

    The paper's rule: sort, shuffle with a seed, hold out the last ``dev_tasks``; but never more than
    ``max_dev_share`` (0 to 1) of all, so that a small set keeps something to train on.
    """
    order = sorted(ids)
    random.Random(seed).shuffle(order)
    # A share like 0.29 of 100 must be 29, not the 28.999... of binary floats.
    cap = int(len(order) * max_dev_share + 1e-9)
    train = len(order) - max(0, min(dev_tasks, cap, len(order)))
    return order[:train], order[train:]


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is, without a tokenizer: English and code run at four characters each."""
    return -(-len(text) // _CHARS_PER_TOKEN)


def too_long(
    prompts: Iterable[tuple[str, str]], *, max_tokens: int, count_tokens: Callable[[str], int] = estimate_tokens
) -> list[str]:
    """The ids of those (task id, prompt) pairs whose prompt has more than ``max_tokens`` tokens, in order."""
    return [task_id for task_id, prompt in prompts if count_tokens(prompt) > max_tokens]
