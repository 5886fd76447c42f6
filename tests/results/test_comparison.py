"""`endless compare`: what differs, and whether it means anything."""

import io
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console
from support.finished import Finished

from runner.cli.compare import print_comparison, resolve
from runner.cli.main import main
from runner.compose import variants
from runner.compose.freeze import frozen_text
from runner.domain.errors import UserError
from runner.pipeline.compile import compile_recipe
from runner.pipeline.layout import Outputs
from runner.results.comparison import compare_runs, write_comparison
from runner.results.runs import Run

PHASES = "phases=[generate,filter]"


@cache
def composed(overrides: tuple[str, ...]):
    """The quickstart with these overrides."""
    ((config, composition),) = variants(["quickstart", PHASES, *overrides])
    return config, composition


class Workshop:
    """Finished runs in one outputs folder; what they share is made once."""

    def __init__(self, root: Path) -> None:
        self.outputs = Outputs(root)
        self._first: Finished | None = None

    def run(self, *overrides: str, chance: float = 0.5, evaluated: float | None = None) -> Run:
        """The quickstart with these overrides; ``chance`` is its solver's, ``evaluated`` its policy's."""
        config, composition = composed(overrides)
        steps = compile_recipe(config)
        marks = {step.name: step.fingerprint for step in steps}
        made = self._tasks(config, marks)
        if not self.outputs.store.is_done("filter", marks["filter"]):
            made.filter(chance)
        if evaluated is not None:
            made.fingerprints = marks
            made.evaluate({"base": 0.1, "ppo": evaluated})
        folder = self.outputs.run(config, steps)
        folder.freeze(frozen_text(composition))
        folder.write_state("done", steps, self.outputs.store)
        return Run(folder, self.outputs, folder.read_state())

    def _tasks(self, config, marks) -> Finished:
        if self._first is None or not self.outputs.store.is_done("generate", marks["generate"]):
            made = Finished(self.outputs.root / "store", config, fingerprints=marks).generate()
            self._first = self._first or made
            return made
        return self._first.sibling(config, marks)


@pytest.fixture
def workshop(tmp_path) -> Workshop:
    return Workshop(tmp_path / "outputs")


def keys(*runs: Run) -> list[str]:
    return [setting.key for setting in compare_runs(runs).settings]


def printed(found, width: int = 100) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width, highlight=False), found)
    return out.getvalue()


def test_only_keys_that_change_results_differ(workshop):
    one = workshop.run()
    other = workshop.run(
        *("filter.n=3", "description=Another", "tracking=off", "executor.workers=2", "sandbox.concurrency=1"),
        *("budget=small", "models.solver.max_retries=1", "+reference.x.value=1"),
    )
    assert keys(one, other) == ["filter.n"]


def test_a_dropped_dimension_is_one_key(workshop):
    one, other = workshop.run(), workshop.run("+drop=scenario", chance=0.2)
    assert keys(one, other) == ["taxonomy.dimensions.scenario"]


def test_a_key_without_its_phase_changes_nothing(workshop):
    assert keys(workshop.run(), workshop.run("filter.n=3", "dataset.dev_tasks=1")) == ["filter.n"]


def test_runs_with_the_same_tasks_are_compared_pairwise(workshop):
    found = compare_runs([workshop.run(chance=0.3), workshop.run("filter.n=8", chance=0.9)])
    score = next(score for score in found.scores if score.name == "filter/pass_at_1")
    assert score.against_first[0].is_paired
    assert score.against_first[0].items == (9, 9)
    assert score.p_values[0] < 0.05
    assert not any(score.name == "generate/keep_rate" for score in found.scores), "they share the phase"
    assert "paired, 9 tasks" in printed(found)


def test_runs_with_other_draws_are_compared_as_samples(workshop):
    found = compare_runs([workshop.run(), workshop.run("seed=3")])
    score = next(score for score in found.scores if score.name == "generate/keep_rate")
    assert not score.against_first[0].is_paired
    assert score.against_first[0].items == (12, 12)


def test_what_two_of_three_runs_share_is_not_a_difference(workshop):
    found = compare_runs([workshop.run(), workshop.run("filter.n=8"), workshop.run("seed=3")])
    score = next(score for score in found.scores if score.name == "generate/keep_rate")
    assert [comparison is None for comparison in score.against_first] == [True, False]
    assert score.p_values[0] is None


def test_three_runs_are_corrected_for_their_number(workshop):
    runs = [workshop.run(chance=0.2), workshop.run("filter.n=8", chance=0.6), workshop.run("filter.n=16", chance=0.9)]
    found = compare_runs(runs)
    score = next(score for score in found.scores if score.name == "filter/pass_at_1")
    raw = [comparison.p_value for comparison in score.against_first]
    assert score.p_values[raw.index(min(raw))] == pytest.approx(2 * min(raw))
    assert "p (Holm)" in printed(found)
    assert "corrected for the number of runs" in " ".join(printed(found).split())


def test_policies_are_compared_on_the_dev_tasks_of_both(workshop):
    evaluated = ("phases=[generate,filter,dataset,ppo,evaluate]", "ppo=cpu", "policy=tiny", "training=cpu", "eval=dev")
    one = workshop.run(*evaluated, evaluated=0.2)
    other = workshop.run(*evaluated, "ppo.epochs=3", evaluated=0.8)
    found = compare_runs([one, other])
    assert [setting.key for setting in found.settings] == ["ppo.epochs"]
    score = next(score for score in found.scores if score.name == "eval/dev/pass_at_1")
    assert score.against_first[0].is_paired
    assert score.p_values[0] < 0.05
    assert "eval/dev/ppo/pass_at_1" in printed(found)


def test_the_tables_fit_a_terminal_of_100_columns(workshop):
    text = printed(compare_runs([workshop.run(), workshop.run("filter.n=3", chance=0.9)]))
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert "filter/pass_at_1  " in text


def test_the_page_says_what_the_terminal_says(workshop, tmp_path):
    found = compare_runs([workshop.run(), workshop.run("filter.n=3", chance=0.9)], ["n=4", "n=3"])
    page = write_comparison(found, tmp_path / "out")
    html, markdown = page.read_text(), page.with_suffix(".md").read_text()
    for text in ("filter.n", "n=4 → n=3", "paired, 9 tasks"):
        assert text in html
    assert "| filter.n | 4 | 3 |" in markdown
    assert "://" not in html


def test_the_command_prints_and_writes(workshop, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = workshop.run(), workshop.run("filter.n=3")
    assert main(["compare", one.name, str(other.folder.path), "--out", "page"]) == 0
    out = capsys.readouterr().out
    assert "filter.n  4  3" in out
    assert (tmp_path / "page" / "compare.html").exists()
    assert "the same as a page: page/compare.html" in out


def test_a_part_of_a_name_is_enough_and_what_is_wrong_is_said(workshop):
    one, other, root = workshop.run(), workshop.run("filter.n=3"), workshop.outputs.root
    found = resolve([one.name.rpartition("-")[2], other.name], root)
    assert [run.name for run in found] == [one.name, other.name]
    cases = {
        (one.name,): "takes two runs or more",
        (one.name, one.name): "is named twice",
        ("quickstart", other.name): "'quickstart' means 2 runs",
        (one.name, "nothing"): "no run 'nothing'",
    }
    for names, message in cases.items():
        with pytest.raises(UserError, match=message):
            resolve(names, root)
