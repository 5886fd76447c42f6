"""What a person can do about trouble with this machine, by what the operating system said. (Container engines have
words of their own: ``docker/engine.py``.)"""

_FEWER = "lower sandbox.concurrency"
_REMEDIES = {
    "no space left on device": "Free some disk space; `endless clean` removes what is not needed.",
    "disk quota exceeded": "Free some of your quota; `endless clean` removes what is not needed.",
    "read-only file system": "Choose a folder that can be written to (--outputs).",
    "permission denied": "`endless doctor` says what this user may do here.",
    "operation not permitted": "`endless doctor` says what this user may do here.",
    "cannot allocate memory": f"The machine has no memory left: {_FEWER} or sandbox.memory_mb.",
    "resource temporarily unavailable": f"There are too many processes: raise `ulimit -u`, or {_FEWER}.",
    "too many open files": f"Raise `ulimit -n`, or {_FEWER}.",
}
DOCTOR = "`endless doctor` checks the sandboxes of this machine."
KILLED = (
    f"Somebody killed it, or the machine ran out of memory (`journalctl -k` tells): then {_FEWER} or sandbox.memory_mb."
)
"""For what ended without a word."""
UNSTEADY = "Lower sandbox.concurrency where the machine is slow; if it happens again, mend the task's start script."
STOPPED = "Did the engine's daemon restart, or somebody remove it? The engine's log tells."
OTHER_BASE = (
    "sandbox.base_image names another image; sandbox.build_env hands proxies and certificates to the build, and "
    "sandbox.build_network is its network."
)
OTHER_IMAGE = "Is the image for another processor, or damaged? `endless doctor` checks the engine."


def advised(message: str) -> str:
    """The message, and a sentence on what to do."""
    lower = message.lower()
    found = next((remedy for sign, remedy in _REMEDIES.items() if sign in lower), DOCTOR)
    return f"{message.rstrip().rstrip('.')}. {found}"
