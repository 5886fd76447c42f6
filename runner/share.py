"""Where our own files are: in a clone or in an installed copy."""

from pathlib import Path

from runner.domain.errors import RecipeError

_PACKAGE = Path(__file__).resolve().parent


def project_root() -> Path:
    """The folder that holds ``configs/``, ``recipes/`` and ``sandboxes/``: the clone, or ``runner/_share`` of a wheel.

    Raises RecipeError when neither is there (a broken installation).
    """
    for root in (_PACKAGE / "_share", _PACKAGE.parent):
        if (root / "configs" / "config.yaml").is_file() and (root / "recipes").is_dir():
            return root
    raise RecipeError(f"configs/ and recipes/ are neither in {_PACKAGE.parent} nor in {_PACKAGE / '_share'}; reinstall")


def share_dir(name: str) -> Path:
    """One of our own folders: ``configs``, ``recipes`` or ``sandboxes``."""
    return project_root() / name
