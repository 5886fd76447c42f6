"""Compiled parts survive, and a killed compiler's lock does not."""

from pathlib import Path

from runner.training.extensions import extensions


def test_a_killed_compilers_lock_is_removed_and_its_results_stay(tmp_path: Path) -> None:
    with extensions(tmp_path) as folder:
        (folder / "py311_cpu" / "adam").mkdir(parents=True)
        (folder / "py311_cpu" / "adam" / "lock").touch()
        (folder / "py311_cpu" / "adam" / "adam.so").touch()
    with extensions(tmp_path) as folder:
        assert [path.name for path in folder.glob("**/adam/*")] == ["adam.so"]


def test_the_lock_of_a_compiler_that_works_stays(tmp_path: Path) -> None:
    with extensions(tmp_path) as folder:
        (folder / "lock").touch()
        with extensions(tmp_path) as same:
            assert (same / "lock").exists()
