"""What is missing is said in a line, with how to get it."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.accounts import account

from runner.domain.errors import MissingRequirement, RecipeError
from runner.evaluation.harbor import HarborRun, run_harbor
from runner.evaluation.harbor.program import engine_of, require_harbor
from runner.schema import Model, Provider
from runner.schema_evaluation import Harness, TerminalBench

ENV = dict(os.environ)


def python_that(folder: Path, *answers: str) -> str:
    """A program in the place of a Python, which gives these answers in turn, then fails."""
    path = folder / "python"
    cases = "\n".join(f'  {number}) echo "{answer}";;' for number, answer in enumerate(answers))
    count = folder / "count"
    count.write_text("0")
    path.write_text(
        f"#!/bin/sh\nn=$(cat {count}); echo $((n + 1)) >{count}\ncase $n in\n{cases}\n"
        '  *) echo "PackageNotFoundError: No package metadata was found for harbor" >&2; exit 1;;\nesac\n'
    )
    path.chmod(0o755)
    return str(path)


def test_a_python_that_is_not_there_is_named() -> None:
    with pytest.raises(MissingRequirement, match=r"is '/nowhere/python'.*pip install 'endless-terminals\[harbor\]'"):
        require_harbor("/nowhere/python", ENV)


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match=r"needs Python 3\.12, and .* is Python 3\.11; python3\.12 -m venv"):
        require_harbor(python_that(tmp_path, "3 11"), ENV)


def test_a_python_without_harbor_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingRequirement, match=r"cannot run Harbor \(PackageNotFoundError.*endless-terminals"):
        require_harbor(python_that(tmp_path, "3 12"), ENV)


def test_a_python_with_harbor_is_taken(tmp_path: Path) -> None:
    python = python_that(tmp_path, "3 13", "")
    assert require_harbor(python, ENV) == python


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python is new enough for Harbor")
def test_by_default_it_is_this_python_which_may_be_too_old() -> None:
    with pytest.raises(MissingRequirement, match="needs Python"):
        require_harbor(None, ENV)


def test_a_missing_engine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingRequirement, match="needs `docker compose`"):
        engine_of("docker")
    assert engine_of("modal") == ""
    assert engine_of("pkg.module:Own") == ""


def test_a_model_that_nobody_serves_is_refused(tmp_path: Path) -> None:
    model = Model(provider=Provider.vllm, name="ppo", base_url="http://127.0.0.1:1")
    out = tmp_path / "out"
    run = HarborRun(bench=TerminalBench(), harness=Harness(), model=model, folder=out, account=account(out))
    with pytest.raises(RecipeError, match=r"eval\.terminalbench\.base_url"):
        run_harbor(replace(run, model=replace(model, base_url="127.0.0.1:1")))
    with pytest.raises(MissingRequirement, match="UNSET_KEY"):
        run_harbor(replace(run, model=replace(model, api_key_env="UNSET_KEY")))
