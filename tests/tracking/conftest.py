"""A real MLflow server on loopback, and helpers to look into stores."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.stores import make_store

from runner.tracking.address import STORE_FILE, default_uri
from runner.tracking.mlflow.quiet import quiet_mlflow
from runner.tracking.ui import running


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an SQLite store without runs: MLflow takes seconds to make one, so it is made once and copied."""
    folder = tmp_path_factory.mktemp("template")
    make_store(folder)
    return folder / STORE_FILE


@pytest.fixture
def outputs(tmp_path: Path, empty_store: Path) -> Path:
    """An outputs folder whose store is already there."""
    shutil.copy(empty_store, tmp_path / STORE_FILE)
    return tmp_path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[str]:
    """The address of an MLflow server with a store of its own: give each test an experiment of its own in it."""
    folder = tmp_path_factory.mktemp("server")
    shutil.copy(empty_store, folder / STORE_FILE)
    with running(default_uri(folder), "127.0.0.1", 0) as (address, _):
        yield address


@pytest.fixture
def quiet() -> Iterator[None]:
    """Looking into a store by MLflow's client without its own deprecation warnings."""
    with quiet_mlflow(10.0):
        yield
