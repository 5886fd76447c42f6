"""The few modules of ours that run inside the container, in a folder of their own: the rest stays out of its sight."""

import hashlib
import os
import secrets
import shutil
from pathlib import Path

import runner
from runner.domain.errors import EngineError
from runner.sandbox.advice import advised

_MODULES = ("domain/plain.py", "domain/task.py", "sandbox/local/identity.py", "sandbox/local/inside/*.py")
_PACKAGES = ("", "domain", "sandbox", "sandbox/local", "sandbox/local/inside")


def ensure_code(cache: Path) -> Path:
    """The folder below ``cache``, made if it is not there yet. Raises EngineError."""
    source = Path(runner.__file__).parent
    files = sorted(path for pattern in _MODULES for path in source.glob(pattern))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:20]
    final = cache / digest
    try:
        if not final.is_dir():
            _copy(source, files, final)
        os.utime(final)  # its time is its last use
    except OSError as error:
        raise EngineError(advised(f"The program for the inside could not be put into {cache}: {error}")) from error
    return final


def _copy(source: Path, files: list[Path], final: Path) -> None:
    partial = final.with_name(f"{final.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    for package in _PACKAGES:
        folder = partial / "runner" / package
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    for file in files:
        shutil.copyfile(file, partial / "runner" / file.relative_to(source))
    try:
        partial.rename(final)
    except OSError:
        shutil.rmtree(partial)
        if not final.is_dir():  # or else somebody was faster
            raise
