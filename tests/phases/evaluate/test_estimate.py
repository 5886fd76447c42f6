"""What an evaluation is expected to cost: only models that somebody is paid for."""

from dataclasses import replace

from runner.compose import compose
from runner.phases.evaluate.estimate import evaluation_estimate
from runner.schema import Config, Model, Price, Provider
from runner.schema_evaluation import Dev, Evaluation, Harness, TerminalBench

ONE = Model(provider=Provider.openai, name="one")
TURNS, PROMPT, GROWTH, WRITTEN = 6, 800, 350, 150


def recipe(evaluation: Evaluation) -> Config:
    return replace(compose("paper/qwen2.5-7b"), eval=evaluation, prices={"one": Price(input=1.0, output=10.0)})


def dollars(episodes: int) -> float:
    read = episodes * sum(PROMPT + GROWTH * turn for turn in range(TURNS))
    return (read + 10 * episodes * TURNS * WRITTEN) / 1e6


def test_its_own_policies_cost_nothing() -> None:
    found = evaluation_estimate(recipe(Evaluation(dev=Dev(), terminalbench=TerminalBench())), 1000)
    assert (found.calls, found.dollars, found.note) == (0, 0, "")


def test_a_named_model_is_counted_on_dev_tasks_and_benchmark_with_every_harness_that_asks_it() -> None:
    bench = TerminalBench(
        models={"o": ONE}, harnesses=[Harness(), Harness(agent="oracle"), Harness(agent="terminus-2")]
    )
    found = evaluation_estimate(recipe(Evaluation(dev=Dev(models={"o": ONE}, samples=3), terminalbench=bench)), 1000)
    episodes = 100 * 3 + 89 * 5 * 2
    assert found.likely_calls == episodes * TURNS
    assert found.dollars == dollars(episodes)


def test_an_unknown_price_is_an_unknown_sum_and_an_unknown_number_of_tasks_is_said() -> None:
    other = replace(ONE, name="other")
    evaluation = Evaluation(dev=Dev(models={"o": other}), terminalbench=TerminalBench(version="9", models={"o": ONE}))
    found = evaluation_estimate(recipe(evaluation), 1000)
    assert found.dollars is None
    assert found.note == "Without the tasks of terminal-bench: how many there are, Harbor's registry knows."
