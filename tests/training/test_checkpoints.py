"""Which checkpoint a killed training goes on from, and which exports stay."""

from pathlib import Path

import pytest

from runner.training.checkpoints import drop_states, make_consistent, prune_exports


def checkpoint(part: Path, *steps: int, latest: int | None = None) -> None:
    """A DeepSpeed folder with these steps; ``latest`` names the last one that was written whole."""
    for step in steps:
        (part / f"global_step{step}").mkdir(parents=True)
    if latest is not None:
        (part / "latest").write_text(f"global_step{latest}")


def test_a_training_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    assert make_consistent(tmp_path) is None


def test_both_parts_go_on_from_the_same_step(tmp_path: Path) -> None:
    checkpoint(tmp_path / "_actor", 10, 20, latest=20)
    checkpoint(tmp_path / "_critic", 10, 20, latest=20)
    assert make_consistent(tmp_path) == 20


def test_a_kill_between_actor_and_critic_leads_both_back(tmp_path: Path) -> None:
    checkpoint(tmp_path / "_actor", 10, 20, latest=20)
    checkpoint(tmp_path / "_critic", 10, 20, latest=10)  # its step 20 is only half there
    assert make_consistent(tmp_path) == 10
    assert (tmp_path / "_actor" / "latest").read_text() == "global_step10"


@pytest.mark.parametrize("critic", [False, True])
def test_half_a_first_checkpoint_is_none(tmp_path: Path, critic: bool) -> None:
    checkpoint(tmp_path / "_actor", 10, latest=10)
    if critic:
        checkpoint(tmp_path / "_critic", 10)
    assert make_consistent(tmp_path) is None
    assert not (tmp_path / "_actor" / "latest").exists(), "DeepSpeed would load the actor alone"


def test_sft_has_one_part(tmp_path: Path) -> None:
    checkpoint(tmp_path, 5, 10, latest=10)
    assert make_consistent(tmp_path) == 10


def test_a_rotated_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    checkpoint(tmp_path, 10, latest=20)  # 20 was deleted to make room for 30, which was never finished
    assert make_consistent(tmp_path) == 10


def exports(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "model.safetensors").write_bytes(b"w")


def test_the_newest_exports_on_the_grid_and_the_best_stay(tmp_path: Path) -> None:
    exports(tmp_path, *(f"global_step{step}_hf" for step in range(10, 90, 10)))
    exports(tmp_path, "best_global_step30_hf", "best_global_step50_hf")
    prune_exports(tmp_path, keep=2, every=20)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["best_global_step50_hf", "global_step60_hf", "global_step80_hf"]


def test_without_a_grid_only_the_best_export_stays(tmp_path: Path) -> None:
    exports(tmp_path, "global_step10_hf", "best_global_step10_hf")
    prune_exports(tmp_path, keep=3, every=None)
    assert [path.name for path in tmp_path.iterdir()] == ["best_global_step10_hf"]


def test_a_finished_training_keeps_its_exports_alone(tmp_path: Path) -> None:
    checkpoint(tmp_path / "_actor", 10, latest=10)
    exports(tmp_path, "global_step10_hf")
    (tmp_path / "latest").write_text("global_step10")
    drop_states(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["global_step10_hf"]
