"""A disk that fills up, without privileges: no file of this process may grow beyond a size."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """Writes beyond ``size`` bytes are cut short, then fail: what a full disk does in mid-line."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
