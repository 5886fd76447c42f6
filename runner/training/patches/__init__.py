"""Small changes to OpenRLHF 0.11.2, made when its modules are imported, in whatever process that is.

``arm()`` only installs an import hook. It is called before anything of OpenRLHF is imported, in each of the trainer's
processes (Ray workers too), by the ``sitecustomize`` that the launcher puts on their path.
"""

from runner.training.patches.hook import arm_hook
from runner.training.patches.masking import AFTER


def arm() -> None:
    """Let masked episodes count for nothing; see ``masking``. Idempotent."""
    arm_hook("masking", AFTER)
