"""Which backend a recipe's ``sandbox.backend`` means; modules are imported only when their backend is asked for."""

import difflib
import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from runner.domain.errors import EngineError, MissingRequirement, RecipeError
from runner.sandbox.base import Backend, Probe
from runner.sandbox.cache import Inventory
from runner.sandbox.descriptors import raise_limit
from runner.schema import Sandbox as Settings

log = logging.getLogger(__name__)

BACKENDS = {
    "docker": "runner.sandbox.docker:DockerBackend",
    "apptainer": "runner.sandbox.apptainer:ApptainerBackend",
    "local": "runner.sandbox.local:LocalBackend",
    "null": "runner.sandbox.null:NullBackend",
}
CACHES = {
    "docker": "runner.sandbox.docker.cache:inventory",
    "apptainer": "runner.sandbox.apptainer.cache:inventory",
    "local": "runner.sandbox.local.cache:inventory",
    "common": "runner.sandbox.leftovers:inventory",
}
"""Who says what ``endless clean`` may remove: a context manager of the ``sandbox`` section, the cache folder and the
moment from which on live runs may have used it (None: no run lives), which yields an ``Inventory``. It may raise
EngineError where its engine is not there. A backend that keeps nothing needs none."""
AUTO = ("docker", "local")
"""What ``auto`` tries, in this order."""

Make = Callable[[Settings, Path, str], Backend]
Take = Callable[[Settings, Path, float | None], AbstractContextManager[Inventory]]


def open_backend(config: Settings, *, cache: Path, run_label: str) -> Backend:
    """The backend of a recipe, known to work on this machine.

    ``cache`` is a folder for what is made once; ``run_label`` marks what this run leaves in an engine. Raises
    RecipeError for an unknown name and MissingRequirement for a backend that cannot work here, or not with as many
    sandboxes at once.
    """
    raise_limit(config)
    if config.backend == "auto":
        return _first_that_works(config, cache, run_label)
    backend = _find(config.backend)(config, cache, run_label)
    probe = backend.probe()
    if not probe.ok:
        raise MissingRequirement(f"sandbox.backend={config.backend} does not work here: {_why(probe)}")
    return backend


def probe_all(config: Settings | None = None, cache: Path = Path()) -> dict[str, Probe]:
    """What each backend that runs commands says about this machine."""
    return {name: probe_one(name, config, cache) for name in ("docker", "apptainer", "local")}


def probe_one(name: str, config: Settings | None = None, cache: Path = Path()) -> Probe:
    """What one backend says about this machine. Raises RecipeError for an unknown name."""
    return _find(name)(config or Settings(), cache, "probe").probe()


@contextmanager
def open_inventories(
    config: Settings, cache: Path, since: float | None
) -> Iterator[dict[str, Inventory | EngineError]]:
    """What each backend keeps, or why it cannot say; see ``CACHES``."""
    with ExitStack() as stack:
        found: dict[str, Inventory | EngineError] = {}
        for name, where in CACHES.items():
            module, _, attribute = where.partition(":")
            take: Take = getattr(importlib.import_module(module), attribute)
            try:
                found[name] = stack.enter_context(take(config, cache, since))
            except EngineError as error:
                found[name] = error
        yield found


def _first_that_works(config: Settings, cache: Path, run_label: str) -> Backend:
    refused: dict[str, str] = {}
    for name in AUTO:
        backend = _find(name)(config, cache, run_label)
        probe = backend.probe()
        if probe.ok:
            because = f"; {' and '.join(refused)} does not work here, see `endless doctor`" if refused else ""
            log.info("sandbox: %s (%s)%s", name, probe.detail, because)
            return backend
        refused[name] = probe.detail
        log.debug("sandbox %s does not work here: %s", name, _why(probe))
    details = " ".join(f"{name}: {detail}" for name, detail in refused.items())
    raise MissingRequirement(f"No sandbox works on this machine. {details} `endless doctor` says more.")


def _find(name: str) -> Make:
    """The class behind a name or a ``module:Class``. Raises RecipeError."""
    module, colon, attribute = BACKENDS.get(name, name).partition(":")
    if not colon:
        names = ["auto", *BACKENDS]
        near = difflib.get_close_matches(name, names, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"valid: {', '.join(names)}, or module:Class."
        raise RecipeError(f"sandbox.backend={name} is not a backend; {hint}")
    try:
        made: Make = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise RecipeError(f"sandbox.backend={name} cannot be loaded: {error}") from error
    return made


def _why(probe: Probe) -> str:
    return f"{probe.detail} {probe.remedy}".strip()
