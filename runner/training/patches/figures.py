"""The trainer's figures as JSON lines, one a scalar, beside its TensorBoard files.

OpenRLHF writes TensorBoard or wandb only. Both its trainers do so through ``SummaryWriter.add_scalar``; each call also
appends ``{"tag", "step", "value", "time"}`` to the file that ENDLESS_FIGURES names, which is what the runner follows.
"""

import json
import os
import time
from collections.abc import Callable
from functools import wraps
from typing import Any

VARIABLE = "ENDLESS_FIGURES"
"""The environment variable that holds the file's path; without it nothing is written."""


def _tell(module: Any) -> None:
    """After ``torch.utils.tensorboard.writer``."""
    path = os.environ.get(VARIABLE)
    if not path:
        return
    writer = module.SummaryWriter
    add_scalar = writer.add_scalar

    @wraps(add_scalar)
    def add_scalar_and_tell(self: Any, tag: str, value: Any, global_step: int | None = None, **rest: Any) -> None:
        add_scalar(self, tag, value, global_step, **rest)
        row = {"tag": tag, "step": int(global_step or 0), "value": float(value), "time": round(time.time(), 3)}
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - one write of one line
            file.write(json.dumps(row) + "\n")

    writer.add_scalar = add_scalar_and_tell


AFTER: dict[str, Callable[[Any], None]] = {"torch.utils.tensorboard.writer": _tell}
