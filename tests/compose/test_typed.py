"""Plain values into the schema: what a section's left-out keys are taken from."""

from dataclasses import replace

from runner.compose.typed import decode_section
from runner.schema_training import Engines, Optimizer, Ppo


def test_a_key_in_an_inner_section_leaves_the_other_keys_as_the_schema_has_them_there():
    found = decode_section(Ppo, {"actor": {"lr": 1e-5}}, "ppo")
    assert found == Ppo(actor=replace(Ppo().actor, lr=1e-5))
    assert found.actor != Optimizer(lr=1e-5)


def test_an_empty_section_is_its_default():
    assert decode_section(Ppo, {"actor": {}, "engines": {}}, "ppo") == Ppo()
    assert decode_section(Ppo, {"engines": {"count": 3}}, "ppo").engines == replace(Engines(), count=3)
