"""Open files: hundreds of sandboxes want more of them than the 1024 that a login usually allows a process."""

import resource

from runner.domain.errors import MissingRequirement
from runner.schema import Sandbox as Settings

EACH = 12
"""At most, of one sandbox: measured, 6 in the local backend and 11 while a program starts in it; fewer in Docker's."""
OTHERS = 256
"""Of the models' connections, the journal, the tracker and the libraries."""
PLENTY = 1 << 16
"""There are programs that count up to the limit, so it is not set to the billion that may be allowed."""


def raise_limit(settings: Settings) -> None:
    """Allow this process, and what it starts, as many open files as it may have. Raises MissingRequirement where those
    are too few for all the sandboxes of the recipe."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = PLENTY if hard == resource.RLIM_INFINITY else hard
    needed = OTHERS + EACH * (settings.concurrency + settings.prestart)
    if most < needed:
        fitting = (most - OTHERS) // EACH - settings.prestart
        instead = f"or set sandbox.concurrency={fitting}" if fitting > 0 else "or start fewer sandboxes"
        raise MissingRequirement(
            f"sandbox.concurrency={settings.concurrency} needs about {needed} open files, but this process may have"
            f" {most}: raise the hard limit (`ulimit -Hn`), {instead}"
        )
    wanted = min(most, max(needed, PLENTY))
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
