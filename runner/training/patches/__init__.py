"""Small changes to OpenRLHF 0.11.2, made when its modules are imported, in whatever process that is.

``arm()`` only installs an import hook. It is called before anything of OpenRLHF is imported, in each of the trainer's
processes (Ray workers too), by the ``sitecustomize`` that the launcher puts on their path.
"""

from runner.training.patches import figures, masking
from runner.training.patches.hook import arm_hook


def arm() -> None:
    """Masked episodes count for nothing (``masking``), and figures are told to the runner (``figures``). Idempotent."""
    arm_hook("masking", masking.AFTER)
    arm_hook("figures", figures.AFTER)
