"""Every flag goes through OpenRLHF's own parser; the user's flags win; other versions are refused."""

import os
import sys
import textwrap
from pathlib import Path

import pytest
from support.real_trainer import trainer_python

from runner.domain.errors import MissingRequirement, RecipeError
from runner.training.compile import Facts, check_trainer, compile_ppo, compile_sft, installed_flags, known_flags
from runner.training.compile.command import Flag
from runner.training.compile.flag_table import Option, Refused, build_parser, read_options
from runner.training.compile.overrides import check_flags
from runner.training.compile.parser import Program, find_trainer, read_flags, stored_flags

SOURCE = textwrap.dedent("""
    import torch
    def train(args): parser.add_argument("--not-here")
    if __name__ == "__main__":
        parser = argparse.ArgumentParser()
        parser.add_argument("--a.text", type=str, default=None)
        parser.add_argument("--a.list", type=float, nargs=2, default=(0, 1), help="two")
        parser.add_argument("--a.mode", type=str, choices=["mask", "clip"], default=f"x{datetime.now()}")
        parser.add_argument("--a.on", action="store_true", default=False)
        for prefix in ("actor", "critic"):
            parser.add_argument(f"--{prefix}.lr", type=float, default=1e-6 if prefix == "actor" else 9e-6)
        args = parser.parse_args()
""")


def test_options_are_read_from_source_without_running_it():
    assert read_options(SOURCE) == {
        "--a.text": Option(name="--a.text"),
        "--a.list": Option(name="--a.list", type="float", nargs=2),
        "--a.mode": Option(name="--a.mode", choices=("mask", "clip")),
        "--a.on": Option(name="--a.on", switch=True),
        "--actor.lr": Option(name="--actor.lr", type="float"),
        "--critic.lr": Option(name="--critic.lr", type="float"),
    }


@pytest.mark.parametrize("call", ["'--x', type=json.loads", "'--x', action='append'", "name", "f'--{1 + 1}'"])
def test_an_option_that_is_not_understood_is_not_guessed_at(call):
    with pytest.raises(ValueError, match="line 1"):
        read_options(f"parser.add_argument({call})")


@pytest.mark.parametrize(
    "words",
    [["--a.list", "1"], ["--a.list", "1", "x"], ["--a.mode", "mean"], ["--a.on", "1"], ["--a.tex", "abbreviated"]],
)
def test_the_rebuilt_parser_refuses_what_argparse_refuses(words):
    with pytest.raises(Refused):
        build_parser(read_options(SOURCE)).parse_args(words)


def test_a_flag_that_is_gone_names_our_key():
    with pytest.raises(RecipeError, match=r"^ppo\.gamma: OpenRLHF has no flag --a\.lst; did you mean a\.list\?$"):
        check_flags([Flag(name="--a.lst", values=("1",), key="ppo.gamma")], read_options(SOURCE))


def test_the_stored_table_has_both_programs():
    flags = stored_flags().flags
    assert (len(flags[Program.PPO]), len(flags[Program.SFT])) == (167, 77)
    assert flags[Program.PPO]["--actor.eps_clip_low_high"].nargs == 2


def own(recipe, facts, table, *overrides: str):
    return compile_ppo(recipe(*overrides), facts(rows=8), table)


def test_the_users_flags_come_last_and_win(recipe, facts, table):
    command = own(recipe, facts, table, "+training.flags={actor.adam.lr: 0.001, ds.zpg: 8}")
    assert command.argv[-4:] == ("--actor.adam.lr", "0.001", "--ds.zpg", "8")
    assert command.argv.count("--actor.adam.lr") == 1
    assert "training.flags replaces --actor.adam.lr 0.0002 (from ppo.actor.lr)" in command.notes


def test_a_flag_set_on_the_command_line_comes_nested_and_means_the_same(recipe, facts, table):
    command = own(recipe, facts, table, "+training.flags={ds: {zpg: 8}}")
    assert command.argv[-2:] == ("--ds.zpg", "8")


def test_switches_are_set_with_true_and_taken_away_with_false(recipe, facts, table):
    on = own(recipe, facts, table, "+training.flags={ds.use_liger_kernel: true}")
    assert on.argv[-1] == "--ds.use_liger_kernel"
    off = own(recipe, facts, table, "+training.flags={vllm.enforce_eager: false}")
    assert "--vllm.enforce_eager" not in off.argv
    assert "training.flags leaves out --vllm.enforce_eager (from ppo.engines.eager)" in off.notes


def test_a_flag_with_several_values_is_a_list(recipe, facts, table):
    command = own(recipe, facts, table, "+training.flags={reward.clip_range: [-1, 1]}")
    assert command.argv[-3:] == ("--reward.clip_range", "-1", "1")


def test_a_flag_of_one_program_is_left_out_of_the_other(recipe, facts, table):
    config = recipe("sft=quick", "+training.flags={vllm.sync_backend: gloo, ds.zpg: 2}")
    assert compile_sft(config, facts(rows=12), table).argv[-2:] == ("--ds.zpg", "2")
    assert compile_ppo(config, facts(rows=8), table).argv[-4:] == ("--vllm.sync_backend", "gloo", "--ds.zpg", "2")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("{ds.zgp: 8}", "training.flags.ds.zgp: OpenRLHF has no flag --ds.zgp; did you mean ds.zpg?"),
        ("{enforce_eager: true}", "did you mean vllm.enforce_eager?"),
        (
            "{ds.zpg: eight}",
            "training.flags.ds.zpg: OpenRLHF does not take --ds.zpg eight: argument --ds.zpg: invalid int",
        ),
        ("{actor.loss_agg_mode: mean}", "training.flags.actor.loss_agg_mode: OpenRLHF does not take"),
        ("{vllm.enforce_eager: 1}", "training.flags.vllm.enforce_eager: OpenRLHF does not take"),
        ("{critic.muon.lr: [1, 2]}", "training.flags.critic.muon.lr: OpenRLHF does not take"),
    ],
)
def test_a_flag_that_openrlhf_does_not_take_is_refused(flags, message, recipe, facts, table):
    with pytest.raises(RecipeError) as caught:
        own(recipe, facts, table, f"+training.flags={flags}")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def a_python_with(folder: Path, version: str | None) -> str:
    """A Python whose OpenRLHF has this version; its programs are those of the test's source."""
    site = folder / "site"
    if version:
        (site / "openrlhf" / "cli").mkdir(parents=True)
        (site / "openrlhf" / "__init__.py").write_text("raise SystemExit('imported')\n")
        for program in Program:
            (site / "openrlhf" / "cli" / f"{program.value}.py").write_text(SOURCE)
        (site / f"openrlhf-{version}.dist-info").mkdir()
        (site / f"openrlhf-{version}.dist-info" / "METADATA").write_text(f"Name: openrlhf\nVersion: {version}\n")
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec "{sys.executable}" "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_another_version_is_refused_with_the_reason(tmp_path, recipe):
    config = recipe(f"training.python={a_python_with(tmp_path, '0.12.0')}")
    for ask in (known_flags, installed_flags):
        with pytest.raises(MissingRequirement, match=r"OpenRLHF 0\.12\.0 is installed, but only 0\.11\.2 is known"):
            ask(config)


def test_the_known_version_is_read_and_never_imported(tmp_path, recipe):
    config = recipe(f"training.python={a_python_with(tmp_path, '0.11.2')}")
    table = installed_flags(config)
    assert table.installed
    assert "--critic.lr" in table.flags[Program.PPO]


def test_without_openrlhf_a_plan_says_so_and_a_run_says_how_to_get_it(tmp_path, recipe, facts):
    python = a_python_with(tmp_path, None)
    assert "not installed" in known_flags(recipe(f"training.python={python}")).source
    with pytest.raises(MissingRequirement, match=r"--no-deps -r runner/training/cpu/requirements\.txt"):
        compile_ppo(recipe(f"training.python={python}"), facts(rows=8))
    with pytest.raises(MissingRequirement, match=r"pip install 'endless-terminals\[train\]'"):
        compile_ppo(recipe(f"training.python={python}", name="paper/qwen2.5-7b"), facts())


def test_a_python_that_does_not_start_is_named(recipe):
    with pytest.raises(MissingRequirement, match=r"training\.python: /no/such/python does not start"):
        known_flags(recipe("training.python=/no/such/python"))


@pytest.fixture
def trainer() -> str:
    return trainer_python()


@pytest.mark.trainer
@pytest.mark.live
def test_the_stored_table_is_the_installed_parser(trainer):
    found = find_trainer(trainer)
    assert found is not None
    assert read_flags(found[1]) == stored_flags().flags


@pytest.mark.trainer
@pytest.mark.live
def test_the_installed_parser_is_asked_in_under_half_a_second(trainer, recipe):
    config = recipe(f"training.python={trainer}")
    find_trainer.cache_clear()
    before = sum(os.times()[:4])
    table = installed_flags(config)
    assert sum(os.times()[:4]) - before < 0.5, "processor time, that other work on the machine does not count"
    assert table.source == "against the installed OpenRLHF 0.11.2"


@pytest.mark.trainer
@pytest.mark.live
def test_the_installed_trainer_takes_the_papers_command(trainer, recipe, facts):
    config = recipe(f"training.python={trainer}", name="paper/qwen2.5-7b")
    assert compile_ppo(config, facts()).checked == "against the installed OpenRLHF 0.11.2"
    assert isinstance(facts(), Facts)


def test_before_a_run_starts_its_trainer_is_asked_for_and_its_flags_are_tried(tmp_path, recipe):
    with pytest.raises(MissingRequirement, match=r"training needs OpenRLHF 0\.11\.2"):
        check_trainer(recipe(f"training.python={a_python_with(tmp_path, None)}"))


@pytest.mark.trainer
@pytest.mark.live
def test_the_installed_trainer_passes_the_check_before_a_run(trainer, recipe):
    check_trainer(recipe("sft=quick", f"training.python={trainer}"))
    with pytest.raises(RecipeError, match=r"did you mean ds\.zpg"):
        check_trainer(recipe(f"training.python={trainer}", "+training.flags={ds.zgp: 8}"))
