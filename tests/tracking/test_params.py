"""Flat params: readable, bounded, and free of secrets."""

from enum import Enum
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runner.tracking.mlflow.params import NAME_LIMIT, VALUE_LIMIT, clip, flatten
from runner.tracking.secrets import Secrets


class _Mode(Enum):
    fast = "fast"


def test_nested_settings_become_dotted_names() -> None:
    assert flatten({"filter": {"n": 4, "keep": ["a > 0"]}, "seed": 0, "record": None, "on": True}) == {
        "filter.n": "4",
        "filter.keep": '["a > 0"]',
        "seed": "0",
        "record": "null",
        "on": "true",
    }


def test_enums_and_paths_are_shown_by_their_value() -> None:
    assert flatten({"mode": _Mode.fast, "to": Path("/a"), "many": [_Mode.fast]}) == {
        "mode": "fast",
        "to": "/a",
        "many": '["fast"]',
    }


def test_small_tables_are_shown_and_large_ones_summarised() -> None:
    small, large = {"one command": 1.0}, {f"label {i}": 1.0 for i in range(100)}
    flat = flatten({"small": small, "large": large})
    assert flat["small"] == '{"one command": 1.0}'
    assert flat["large"].startswith("100 entries, sha256 ")
    assert flat["large"] != flatten({"large": large | {"label 0": 2.0}})["large"]


def test_a_long_value_is_cut_with_a_mark() -> None:
    text = clip("x" * 10_000)
    assert len(text) == VALUE_LIMIT
    assert text.endswith("[cut: 10000 characters in all]")


@given(st.recursive(st.none() | st.integers() | st.text(), lambda v: st.dictionaries(st.text(), v), max_leaves=20))
def test_any_config_stays_within_mlflows_limits(value: object) -> None:
    for name, text in flatten({"root": value}).items():
        assert 0 < len(name) <= NAME_LIMIT
        assert len(text) <= VALUE_LIMIT


def test_secrets_are_masked_by_value_by_name_and_in_addresses() -> None:
    secrets = Secrets({"OPENAI_API_KEY": "sk-12345678", "HOME": "/home/someone", "SHORT_KEY": "1"})
    assert secrets.text("bad key sk-12345678 for /home/someone, 1") == "bad key *** for /home/someone, 1"
    assert secrets.text("postgresql://me:pw@db/x") == "postgresql://***@db/x"
    assert secrets.value({"api_key": "abc", "api_key_env": "OPENAI_API_KEY", "max_tokens": 5}) == {
        "api_key": "***",
        "api_key_env": "OPENAI_API_KEY",
        "max_tokens": 5,
    }
    assert secrets.value({"args": ["--api-key", "abc", "--token=abc", "--port", "1"]}) == {
        "args": ["--api-key", "***", "--token=***", "--port", "1"]
    }
    assert secrets.value({"env": {"HF_TOKEN": "abc", "X": "y"}}) == {"env": {"HF_TOKEN": "***", "X": "***"}}
