"""First on the trainer's PYTHONPATH, so that every Python of it starts here: driver, Ray workers, vLLM's processes.

Arms the changes to OpenRLHF that ``runner/training/patches`` and, on a CPU, ``runner/training/cpu`` make. Only import
hooks are installed; a process that never imports OpenRLHF is left as it is.
"""

import os

from runner.training.patches import arm

arm()
if os.environ.get("ENDLESS_DEVICE") == "cpu":
    from runner.training.cpu.shim import arm as arm_cpu

    arm_cpu()
