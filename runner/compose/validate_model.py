"""Checks of a model's settings beyond types, wherever in a recipe it stands. Part of ``runner/compose/validate.py``."""

from collections.abc import Iterator

from runner.compose.suggest import did_you_mean
from runner.schema import Model, Provider
from runner.share import share_dir

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def model_problems(model: Model, key: str) -> Iterator[str]:
    """What cannot work, a line each; ``key`` is where the model stands."""
    if model.provider is Provider.replay:
        yield from _recordings(model.replay, key)
    elif not model.name:
        yield f"{key}.name is empty, but provider {model.provider.name} needs a model's name"
    for name in ("concurrency", "timeout_seconds"):
        if getattr(model, name) <= 0:
            yield f"{key}.{name} is {getattr(model, name)}, but must be more than 0"
    if model.max_retries < 0:
        yield f"{key}.max_retries is {model.max_retries}, but must be 0 or more"
    if model.temperature is not None and not 0 <= model.temperature <= 2:
        yield f"{key}.temperature is {model.temperature}, but must be between 0 and 2, or null"
    if model.reasoning_effort is not None and model.reasoning_effort not in EFFORTS:
        yield (
            f"{key}.reasoning_effort is {model.reasoning_effort!r}, not one of {', '.join(EFFORTS)}"
            f"{did_you_mean(model.reasoning_effort, EFFORTS)}"
        )
    if model.base_url is not None and not model.base_url.startswith(("http://", "https://")):
        yield f"{key}.base_url is {model.base_url!r}, but must start with http:// or https://"


def _recordings(folder: str | None, key: str) -> Iterator[str]:
    if not folder:
        yield f"{key}.replay is not set: provider replay needs a folder of recordings (recordings/quickstart)"
        return
    root = share_dir("recipes")
    if not (root / folder).is_dir():
        known = [path.relative_to(root).as_posix() for path in (root / "recordings").glob("*") if path.is_dir()]
        yield f"{key}.replay: there is no folder {folder!r}, absolute or in {root}{did_you_mean(folder, known)}"
