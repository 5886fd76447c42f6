"""Which backend a recipe's word means."""

import logging
from pathlib import Path

import pytest

from runner.domain.errors import MissingRequirement, RecipeError
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox


def test_a_typo_is_answered_with_the_nearest_names(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="dokcer is not a backend; did you mean docker"):
        open_backend(Sandbox(backend="dokcer"), cache=tmp_path, run_label="x")


def test_an_unlike_name_is_answered_with_all_names(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="valid: auto, docker, apptainer, local, null, or module:Class"):
        open_backend(Sandbox(backend="zzz"), cache=tmp_path, run_label="x")


@pytest.mark.parametrize("name", ["nosuch.module:Class", "runner.sandbox.null:Nope"])
def test_a_plug_in_that_cannot_be_loaded_is_a_recipe_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecipeError, match="cannot be loaded"):
        open_backend(Sandbox(backend=name), cache=tmp_path, run_label="x")


def test_a_dotted_name_is_a_plug_in(tmp_path: Path) -> None:
    backend = open_backend(Sandbox(backend="runner.sandbox.null:NullBackend"), cache=tmp_path, run_label="x")
    assert backend.name == "null"


def test_a_named_backend_that_does_not_work_says_what_to_do(tmp_path: Path) -> None:
    dead = Sandbox(backend="docker", address=f"unix://{tmp_path}/no.sock")
    with pytest.raises(MissingRequirement, match=r"backend=docker does not work here.*no.sock.*sandbox=local"):
        open_backend(dead, cache=tmp_path, run_label="x")


@pytest.mark.docker
@pytest.mark.live
def test_auto_prefers_docker_and_says_so(
    docker_settings: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        backend = open_backend(Sandbox(address=docker_settings.address), cache=tmp_path, run_label="x")
    assert backend.name == "docker"
    assert "sandbox: docker" in caplog.text
    backend.close()


@pytest.mark.local
@pytest.mark.live
def test_auto_falls_back_to_local_and_says_so(local_ok: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        backend = open_backend(Sandbox(address=f"unix://{tmp_path}/no.sock"), cache=tmp_path, run_label="x")
    assert backend.name == "local"
    assert "docker does not work here" in caplog.text
    backend.close()
