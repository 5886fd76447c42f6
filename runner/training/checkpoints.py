"""What a trainer leaves on disk: checkpoints to go on from, and exports in the Hugging Face format.

::

    checkpoints/{_actor,_critic}/{latest, global_step20/, best_global_step10/}    PPO, and exports <tag>_hf beside them
    checkpoints/{latest, global_step20/}                                           SFT
"""

import re
import shutil
from pathlib import Path

from runner.store.jsonl import write_text

_TAG = re.compile(r"(best_)?global_step(\d+)")
_EXPORT = re.compile(r"(best_)?global_step(\d+)_hf")


def make_consistent(folder: Path) -> int | None:
    """The step a resumed trainer goes on from; None when there is nothing to go on from.

    A kill between the actor's checkpoint and the critic's leaves them at different steps. Both are then led back to the
    newest step that both have whole, by DeepSpeed's own ``latest`` files.
    """
    parts = [part for part in (folder / "_actor", folder / "_critic") if part.is_dir()] or [folder]
    common = set.intersection(*(_whole(part) for part in parts))
    if (folder / "_actor").is_dir() and not (folder / "_critic").is_dir():
        common = set()  # killed during the very first checkpoint
    if not common:
        _forget(parts)
        return None
    step, tag = max(common)
    for part in parts:
        if _latest(part) != tag:
            write_text(part / "latest", tag)
    return step


def _whole(part: Path) -> set[tuple[int, str]]:
    """(step, tag) of the checkpoints that were finished: ``latest`` is written after the last of them."""
    latest = _TAG.fullmatch(_latest(part))
    if latest is None:
        return set()
    found = ((match, path) for path in part.iterdir() if (match := _TAG.fullmatch(path.name)))
    return {(int(match[2]), path.name) for match, path in found if int(match[2]) <= int(latest[2])}


def _latest(part: Path) -> str:
    path = part / "latest"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def _forget(parts: list[Path]) -> None:
    """Half a first checkpoint would be an error to DeepSpeed."""
    for part in parts:
        (part / "latest").unlink(missing_ok=True)


def prune_exports(folder: Path, *, keep: int, every: int | None) -> None:
    """Delete exports beyond the newest ``keep`` and off the ``every`` grid; the best by dev score stays.

    OpenRLHF writes one with every checkpoint and never deletes any.
    """
    exports = {path: match for path in folder.glob("*_hf") if (match := _EXPORT.fullmatch(path.name))}
    wanted = [path for path, match in exports.items() if not match[1] and every and int(match[2]) % every == 0]
    newest = sorted(wanted, key=lambda path: int(exports[path][2]))[-keep:] if keep > 0 else []
    best = sorted((path for path, match in exports.items() if match[1]), key=lambda path: int(exports[path][2]))[-1:]
    for path in exports:
        if path not in (*newest, *best):
            shutil.rmtree(path, ignore_errors=True)


def drop_states(folder: Path) -> None:
    """Delete optimizer states: a finished training is never gone on with. Exports stay."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not _EXPORT.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            path.unlink(missing_ok=True)
