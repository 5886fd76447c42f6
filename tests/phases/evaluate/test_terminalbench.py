"""What Harbor's own agents spend is booked on the run's account, and no trial begins beyond its budget."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from support.stand_in import rewarded, stand_in, trial

from runner.compose import compose
from runner.domain.episode import Outcome
from runner.domain.errors import BudgetExceeded
from runner.phases.base import Context
from runner.phases.evaluate.terminalbench import evaluate_terminalbench
from runner.pipeline.layout import Outputs, RunFolder
from runner.pipeline.resources import RunResources
from runner.schema import Budget, Model, Price, Provider
from runner.schema_evaluation import Harness, TerminalBench
from runner.store.jsonl import read_lines

MODEL = Model(provider=Provider.openai, name="m", base_url="http://127.0.0.1:1/v1", api_key_env=None)


class Quiet:
    """A watcher that counts."""

    def __init__(self) -> None:
        self.seen: list[Outcome] = []

    def begin(self, phase: str, total: int, done: int) -> None: ...

    def advance(self, phase: str, outcome: Outcome, label: str) -> None:
        self.seen.append(outcome)

    def figures(self, phase: str, step: int, metrics: object) -> None: ...

    def end(self, phase: str) -> None: ...


def spent(read: int, written: int) -> dict[str, object]:
    metadata = {"n_episodes": 7}
    return {"agent_result": {"n_input_tokens": read, "n_output_tokens": written, "metadata": metadata}}


@contextmanager
def context(folder: Path, budget: Budget) -> Iterator[Context]:
    config = replace(compose("quickstart"), budget=budget, prices={"m": Price(input=1.0, output=10.0)})
    resources = RunResources(config, Outputs(folder / "outputs"), RunFolder(folder / "run"), Event())
    with closing(resources):
        yield Context(
            config=config,
            folder=folder / "evaluate",
            upstream={},
            resources=resources,
            watcher=Quiet(),
            stop=Event(),
            cache=folder / "cache",
            run_label="test",
        )


def bench(folder: Path, *commands: str, harness: str = "terminus-2") -> TerminalBench:
    python = str(stand_in(folder, *commands))
    return TerminalBench(python=python, environment="modal", harnesses=[Harness(agent=harness)], models={"one": MODEL})


def ledger(folder: Path) -> list[tuple[str, int, str]]:
    rows = read_lines(folder / "run" / "ledger.jsonl")
    return [(row["model"], row["calls"], row["cost"]) for row in rows]


def test_a_budget_ends_a_job_of_harbors_own_agent_between_two_trials(tmp_path: Path) -> None:
    first = trial("a__1", **rewarded(1.0), **spent(100_000, 10_000))
    second = trial("b__1", **rewarded(0.0), **spent(200_000, 0))
    over = pytest.raises(BudgetExceeded, match=r"spent \$0\.2000 of \$0")
    with context(tmp_path, Budget(dollars=0.15)) as made, over:
        evaluate_terminalbench(made, bench(tmp_path, first, "exec sleep 60"))
    assert ledger(tmp_path) == [("m", 7, "0.2")]
    with context(tmp_path, Budget(dollars=0.4)) as made:
        evaluate_terminalbench(made, bench(tmp_path, second))
        assert made.watcher.seen == [Outcome.PASS, Outcome.FAIL]
    assert ledger(tmp_path) == [("m", 7, "0.2"), ("m", 7, "0.2")]


def test_a_spent_budget_lets_no_trial_begin(tmp_path: Path) -> None:
    with context(tmp_path, Budget(calls=0)) as made, pytest.raises(BudgetExceeded, match="all 0 calls"):
        evaluate_terminalbench(made, bench(tmp_path, "exec sleep 60"))


def test_an_agent_that_asks_no_model_needs_no_budget(tmp_path: Path) -> None:
    trials = [trial(name, **rewarded(1.0)) for name in ("a__1", "b__1")]
    with context(tmp_path, Budget(calls=0)) as made:
        evaluate_terminalbench(made, bench(tmp_path, *trials, harness="oracle"))
    (folder,) = (tmp_path / "evaluate").glob("terminalbench/one/oracle")
    assert json.loads((folder / "job.json").read_text())["agents"] == [{"name": "oracle", "kwargs": {}}]


def test_what_our_own_agent_is_told_leads_to_the_runs_account(tmp_path: Path) -> None:
    trials = [trial(name, **rewarded(1.0), **spent(5, 5)) for name in ("a__1", "b__1")]
    with context(tmp_path, Budget(dollars=3.0)) as made:
        evaluate_terminalbench(made, bench(tmp_path, *trials, harness="endless"))
        told = json.loads((tmp_path / "evaluate/terminalbench/one/endless/agent.json").read_text())["account"]
    assert told["ledger"] == str(tmp_path / "run" / "ledger.jsonl")
    assert told["journal_root"] == str(tmp_path / "outputs" / "store" / "journal")
    assert told["budget"]["dollars"] == 3.0
    assert ledger(tmp_path) == [], "it books its calls itself"
