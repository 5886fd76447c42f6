"""Plain forms of our own values, and back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.domain.plain import plain, unplain
from runner.schema import Config, Dimension, Price, Provider, Taxonomy
from runner.schema_training import Optimizer, Ppo, Schedule, Sft


def test_a_whole_recipe_survives_being_written_and_read() -> None:
    config = Config(
        name="x",
        taxonomy=Taxonomy(dimensions={"kind": Dimension(values={"a": 1.0}), "dropped": None}),
        prices={"m": Price(input=1.5)},
        sft=Sft(optimizer=Optimizer(schedule=Schedule.linear, betas=[0.8, 0.9])),
        ppo=Ppo(),
    )
    solver = replace(config.models.solver, provider=Provider.vllm)
    config = replace(config, models=replace(config.models, solver=solver))
    assert unplain(Config, json.loads(json.dumps(plain(config)))) == config


def test_an_episode_survives_being_written_and_read() -> None:
    episode = Episode(task_id="t", sample=1, outcome=Outcome.PASS, end=EndReason.DONE, turns=(Turn(reply="x"),))
    assert unplain(Episode, json.loads(json.dumps(plain(episode)))) == episode


def test_a_path_becomes_a_path_again() -> None:
    assert unplain(Path, plain(Path("/a/b"))) == Path("/a/b")


@pytest.mark.parametrize("value", [[], {"nonsense": 1}, {"provider": "nobody"}, None])
def test_what_is_not_the_plain_form_is_an_error(value: object) -> None:
    with pytest.raises((TypeError, KeyError)):
        unplain(type(Config().models.solver), value)
