"""Composing leaves nothing behind: every test here runs in an empty folder that must stay empty."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HEADER = "# @package _global_\n"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cwd")
    monkeypatch.chdir(folder)
    yield folder
    assert [*folder.iterdir()] == [], "composing wrote into the working directory"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a recipe file of the user's own and return its path."""

    def write(body: str, name: str = "mine.yaml", header: str = HEADER) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header + body)
        return str(path)

    return write
