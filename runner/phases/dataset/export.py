"""One door to all export formats: what ``endless tasks export`` and the dataset phase call."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from runner.domain.errors import UserError
from runner.domain.task import Task
from runner.phases.dataset.harbor import export_harbor
from runner.phases.dataset.hf import export_hf
from runner.phases.dataset.openrlhf import Render, export_openrlhf

Splits = Mapping[str, Iterable[Task]]
"""Split name -> its tasks, read once and lazily. ``{"": tasks}`` is a set without splits."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the formats need from outside."""

    render: Render
    """OpenRLHF: a task's opening messages."""
    base_dockerfile: str
    """Harbor: the text of our base image's Dockerfile."""
    truth: bool = False
    """Hugging Face: include the hidden ground truth."""


def export(splits: Splits, export_format: str, to: Path, options: Options) -> dict[str, int]:
    """Write the tasks in a format below ``to``; returns the number of tasks a split.

    ``harbor`` writes ``[SPLIT/]ID/`` folders, ``openrlhf`` ``SPLIT.jsonl`` (``train.jsonl`` without splits), ``hf`` a
    dataset folder. Raises UserError for an unknown format, StorageError.
    """
    return _writer(export_format)(splits, to, options)


def _harbor(splits: Splits, to: Path, options: Options) -> dict[str, int]:
    base = options.base_dockerfile
    return {name: export_harbor(tasks, to / name, base_dockerfile=base) for name, tasks in splits.items()}


def _openrlhf(splits: Splits, to: Path, options: Options) -> dict[str, int]:
    return {
        name: export_openrlhf(tasks, to / f"{name or 'train'}.jsonl", options.render) for name, tasks in splits.items()
    }


def _hf(splits: Splits, to: Path, options: Options) -> dict[str, int]:
    return export_hf({name or "train": tasks for name, tasks in splits.items()}, to, truth=options.truth)


FORMATS: Mapping[str, Callable[[Splits, Path, Options], dict[str, int]]] = {
    "harbor": _harbor,
    "openrlhf": _openrlhf,
    "hf": _hf,
}


def _writer(name: str) -> Callable[[Splits, Path, Options], dict[str, int]]:
    if name in FORMATS:
        return FORMATS[name]
    near = get_close_matches(name, FORMATS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise UserError(f"no export format {name!r}: {hint}There are {', '.join(FORMATS)}")
