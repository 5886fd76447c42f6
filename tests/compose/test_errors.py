"""Typos of every kind on the command line: one or two lines, the key, the nearest valid name."""

import pytest

from runner.compose import run_app
from runner.domain.errors import RecipeError

CASES = [
    ("sandbox=dockr", "the group sandbox has no 'dockr'; did you mean docker?\noptions: apptainer, auto, docker"),
    ("sandbx=docker", "unknown key sandbx; did you mean sandbox?"),
    ("sandbox.bakend=x", "unknown key sandbox.bakend; did you mean sandbox.backend?"),
    ("+sandbox=docker", "sandbox is chosen already; write sandbox=docker without +"),
    ("drop=scenario", "drop is not chosen in this recipe; write +drop=OPTION to add it"),
    ("+drop=scenari", "the group drop has no 'scenari'; did you mean scenario?"),
    ("+filter.typo=3", "unknown key filter.typo; filter has n, keep, early_stop"),
    ("+filter.backend=x", "unknown key filter.backend; did you mean sandbox.backend?"),
    ("+fliter.n=3", "unknown key fliter; did you mean filter?"),
    ("filter={n: 3, m: 4}", "unknown key filter.m; did you mean filter.n"),
    ("filter.n=abc", "filter.n is 'abc', but wants a whole number"),
    ("filter.n=2.5", "filter.n is 2.5, but wants a whole number"),
    ("filter.n=true", "filter.n is True, but wants a whole number"),
    ("filter.n=null", "filter.n is null, but wants a whole number"),
    ("filter.n=1,2", "add -m to sweep over the values, or write 'filter.n=[1,2]' for a list"),
    ("filter.n=[", "cannot read the override 'filter.n=['"),
    ("generate.oracle=maybe", "generate.oracle is 'maybe', but wants true or false"),
    ("models.generator=null", "models.generator is null, but wants a section with the keys provider, name"),
    ("models.generator.provider=opnai", "not one of openai, anthropic, vllm, replay; did you mean openai?"),
    ("taxonomy.sampling=stratifed", "did you mean stratified?"),
    ("llm@models.solver=o4", "the group llm has no 'o4'"),
    ("llm@models.slover=o3", "llm@ goes to models.generator or models.solver"),
    ("llmm@models.solver=o3", "there is no config group 'llmm'; did you mean llm?"),
    ("models.solver.name=${foo}", "models.solver.name: Interpolation key 'foo' not found"),
    ("model=gpt", "options: claude, compatible, openai, paper, replay, vllm"),
    ("taxonomy.dimensions.scenrio=null", "did you mean taxonomy.dimensions.scenario?"),
    ("+taxonomy.dimensions.scenrio=null", "no such dimension to drop; did you mean scenario?"),
    ("~taxonomy.dimensions.scenrio", "did you mean taxonomy.dimensions.scenario?"),
    ("~sandbx", "~sandbx: there is no such key; did you mean sandbox?"),
    ("hydra/launcher=joblib", "the group hydra/launcher has no 'joblib'"),
    ("hydra.launcher.n=3", "unknown key hydra.launcher.n"),
    ("sandbox=3", "recipe quickstart"),
    ("name=???", "name must be set"),
    ("prices.mine={input: 3}", "To add it, write +prices.mine=..."),
    ("prices.gpt-4.1.input=3", "a name with dots cannot be reached by dots; write prices={NAME: ...}"),
    ("+new=1", "unknown key new; a recipe has name, description"),
]


@pytest.mark.parametrize(("override", "message"), CASES)
def test_a_typo_is_answered_with_the_nearest_valid_name(override, message, capfd):
    with pytest.raises(RecipeError) as caught:
        run_app(["quickstart", override], lambda *_: 1 / 0)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") <= 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "which recipe?"),
        (["quikstart"], "recipe 'quikstart' does not exist; did you mean quickstart?"),
        (["qwen2.5-7b"], "did you mean paper/qwen2.5-7b"),
        (["quickstart", "paper/qwen2.5-7b"], "two recipes: quickstart and paper/qwen2.5-7b"),
        (["quickstart", "--multrun"], "unknown option --multrun; did you mean --multirun?"),
        (["quickstart", "--cfg", "jb"], "--cfg wants job or hydra or all, not jb"),
        (["quickstart", "--cfg"], "--cfg wants job or hydra or all"),
        (["quickstart", "--resolve"], "--resolve"),
        (["quickstart", "-m", "--cfg", "job"], "Only one of"),
        (["recordings/quickstart/000000"], "does not exist"),
    ],
)
def test_a_wrong_command_line_is_answered_in_two_lines_at_most(argv, message):
    with pytest.raises(RecipeError) as caught:
        run_app(argv, lambda *_: 1 / 0)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") <= 1
