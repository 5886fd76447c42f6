"""Which reward a verifier's folder holds, and when it holds none."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.grading.script_boot import judge


@pytest.mark.parametrize(
    ("files", "reason", "reward"),
    [
        ({"reward.txt": "1\n"}, "passed", 1.0),
        ({"reward.txt": " 1.0 "}, "passed", 1.0),
        ({"reward.txt": "0"}, "low_reward", 0.0),
        ({"reward.txt": "0.999"}, "low_reward", 0.999),
        ({"reward.txt": "-3"}, "low_reward", -3.0),
        ({"reward.txt": "0.99999999999"}, "passed", 0.99999999999),
        ({"reward.txt": "37"}, "out_of_range", 37.0),
        ({"reward.json": '{"reward": 1}', "reward.txt": "0"}, "passed", 1.0),
        ({"reward.json": '{"reward": 0, "style": 1}', "reward.txt": "1"}, "low_reward", 0.0),
        ({"reward.json": '{"a": 1, "b": 0.5}'}, "low_reward", 0.5),
        ({"reward.json": "1"}, "passed", 1.0),
        ({}, "no_reward", None),
        ({"reward.txt": ""}, "no_reward", None),
        ({"reward.txt": "nan"}, "no_reward", None),
        ({"reward.txt": "inf"}, "no_reward", None),
        ({"reward.txt": "yes"}, "no_reward", None),
        ({"reward.json": "{}", "reward.txt": "1"}, "no_reward", None),
        ({"reward.json": '{"reward": "1"}'}, "no_reward", None),
        ({"reward.json": '{"reward": 1'}, "no_reward", None),
        ({"reward.json": "[" * 100_000}, "no_reward", None),
        ({"reward.txt": "1" + " " * (1 << 20)}, "no_reward", None),
    ],
)
def test_the_reward_of_a_folder(tmp_path: Path, files: dict[str, str], reason: str, reward: float | None) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert judge(tmp_path)[:2] == (reason, reward)


def test_a_link_or_a_pipe_is_no_reward_and_hangs_nothing(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "reward.txt").symlink_to(tmp_path / "one")
    assert judge(tmp_path)[0] == "no_reward"
    (tmp_path / "reward.txt").unlink()
    os.mkfifo(tmp_path / "reward.txt")
    assert judge(tmp_path)[0] == "no_reward"


@given(content=st.binary(max_size=60), name=st.sampled_from(["reward.txt", "reward.json"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_a_number_or_no_reward(tmp_path: Path, content: bytes, name: str) -> None:
    for other in tmp_path.iterdir():
        other.unlink()
    (tmp_path / name).write_bytes(content)
    reason, reward, said = judge(tmp_path)
    assert (reward is None) == (reason == "no_reward")
    assert said
