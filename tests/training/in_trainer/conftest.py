"""These files are run by the trainer's Python, see ``tests/training/test_in_trainer.py``: they need torch and OpenRLHF.

The patches are armed first, as in the trainer's own processes, and so is the CPU shim.
"""

import runner.training.patches as patches

patches.arm()
