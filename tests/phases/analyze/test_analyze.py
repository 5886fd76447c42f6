"""The analysis of a finished run: what it writes down, and that it gives nothing hidden away."""

import json
import re
from dataclasses import replace

import pytest
from support.finished import FINAL_TEST, TRUTH, Finished, analysed, episode, turn, whole

from runner.analysis.failures import FailureMode
from runner.compose import compose
from runner.domain.plain import plain
from runner.phases.analyze.phase import AnalyzePhase
from runner.phases.work import Stopped
from runner.store.jsonl import read_lines, write_rows


@pytest.fixture(scope="module")
def config():
    return compose("paper/qwen2.5-7b", ["eval=dev", "sft=solver", "policy=qwen3-8b", "filter.n=4"])


@pytest.fixture(scope="module")
def folder(config, tmp_path_factory):
    """The analysis of a run that has everything."""
    root = tmp_path_factory.mktemp("whole")
    analysed(whole(root, config), root / "out")
    return root / "out"


@pytest.fixture
def report(config, folder):
    return AnalyzePhase().report(config, folder, "a" * 16)


def headings(folder) -> list[str]:
    return re.findall(r"^## (.+)$", (folder / "report.md").read_text(), re.MULTILINE)


def test_every_failed_episode_of_every_model_has_a_row_with_its_mode(folder, report):
    rows = list(read_lines(folder / "failures.jsonl"))
    models = {row["model"] for row in rows}
    bench = {"terminalbench/endless/base", "terminalbench/endless/ppo"}
    assert models == {"solver", "base", "sft", "ppo@20", "ppo", *bench}
    assert set(rows[0]) == {"model", "task", "sample", "end", "mode", "detail"}
    for model in models:
        mine = [row for row in rows if row["model"] == model]
        graded = sum(row["mode"] != FailureMode.INFRA for row in mine)
        assert report.metrics[f"analysis/{model.replace('@', '-step-')}/failed"] == graded


def test_details_say_what_the_mode_rests_on(folder):
    details = {row["mode"]: row["detail"] for row in read_lines(folder / "failures.jsonl")}
    assert details["loop"] == "16 times: cat status.json"
    assert details["protocol_error"] == "no <command>"
    assert details["wrong_answer"] == "done after 5 turns; 1 failed, 2 passed"


def test_the_plain_metrics_are_the_last_policys(report):
    names = ("loop_failures", "turn_limit", "command_diversity_pass", "command_diversity_fail")
    for name in names:
        assert report.metrics[f"analysis/{name}"] == report.metrics[f"analysis/ppo/{name}"]
    assert set(compose("paper/qwen2.5-7b").reference) >= {f"analysis/{name}" for name in names}


def test_infrastructure_is_in_no_share(folder):
    found = json.loads((folder / "summary.json").read_text())
    bench = next(one["summary"] for one in found["sets"] if one["key"] == "terminalbench/endless/ppo")
    assert bench["infra"] == 1
    assert bench["modes"]["infra"] == {"count": 1, "share": None}
    shares = [counted["share"] for mode, counted in bench["modes"].items() if mode != "infra"]
    assert sum(shares) == pytest.approx(1.0)


def test_a_whole_run_has_every_section(folder):
    sections = ["In short", "What was run", "Scores on the held-out dev tasks", "Benchmark", "Failures", "Training"]
    assert headings(folder) == [*sections, "Tasks", "Taxonomy"]


def test_the_papers_figures_stand_beside_ours_with_their_source(folder):
    text = (folder / "report.md").read_text()
    assert "paper (definition unknown)" in text
    assert re.search(r"\| sft \|.*10\.7 % \|", text), "what the paper calls before is what PPO began with"
    assert re.search(r"\| ppo \|.*53\.3 % \|", text)
    assert "arXiv 2601.16443, results" in text


def test_scores_have_intervals_and_the_change_has_a_p_value(folder):
    text = (folder / "report.md").read_text()
    assert re.search(r"\| ppo \| \d+\.\d % \\\[\d+\.\d, \d+\.\d\\\]", text)
    assert re.search(r"\| sft → ppo \| \+\d+\.\d .* \| (\\< )?0\.\d+ \|", text), "across the checkpoint between them"


def test_scores_are_told_by_label(folder):
    text = (folder / "report.md").read_text()
    assert "by complexity" in text
    assert re.search(r"\| 2-3 commands \| 5 \| \d+\.\d % \\\[.*\| \d+\.\d % \\\[", text)


def test_the_reports_files_go_to_the_tracker(folder, report):
    names = {path.name for path in report.artifacts}
    assert names == {"report.html", "report.md", "figures", "summary.json", "taxonomy.json"}
    figures = set(re.findall(r"\(figures/([\w-]+\.png)\)", (folder / "report.md").read_text()))
    assert figures == {path.name for path in (folder / "figures").iterdir()}


def test_nothing_hidden_is_in_what_may_be_published(folder):
    for path in [folder / "report.html", folder / "report.md", folder / "failures.jsonl", folder / "summary.json"]:
        text = path.read_text()
        assert TRUTH not in text
        assert not any(line.strip() in text for line in FINAL_TEST.splitlines() if len(line) > 12)


def test_an_episode_that_quotes_the_hidden_truth_is_no_example(config, tmp_path):
    made = Finished(tmp_path, config).generate().filter()
    task = made.tasks[0]
    plain_one = episode(task, 0, "wrong")
    quoting = replace(plain_one, turns=(turn("cat notes", f"noted: {TRUTH}"), *plain_one.turns))
    write_rows(made.upstream["filter"] / "episodes.jsonl", [plain(quoting)])
    analysed(made, tmp_path / "out")
    text = (tmp_path / "out" / "report.html").read_text()
    assert TRUTH not in text
    assert "Failed episodes, shortened" not in text


@pytest.mark.parametrize(
    ("phases", "sections"),
    [
        (("generate",), ["In short", "What was run", "Tasks", "Taxonomy"]),
        (("generate", "filter", "dataset"), ["In short", "What was run", "Failures", "Tasks", "Taxonomy"]),
        ((), ["What was run"]),
    ],
)
def test_a_run_with_less_has_fewer_sections(config, tmp_path, phases, sections):
    made = Finished(tmp_path, config)
    for phase in phases:
        getattr(made, phase)()
    report = analysed(made, tmp_path / "out")
    assert headings(tmp_path / "out") == sections
    assert not any(name.startswith("analysis/loop") for name in report.metrics)


def test_a_run_whose_draws_all_failed_has_a_report(config, tmp_path):
    made = Finished(tmp_path, config, draws=3).generate().filter().dataset()
    analysed(made, tmp_path / "out")
    assert headings(tmp_path / "out") == ["In short", "What was run", "Tasks", "Taxonomy"]


def test_it_ends_when_it_is_told_to(config, tmp_path):
    context = Finished(tmp_path, config).generate().filter().context(tmp_path / "out")
    context.stop.set()
    with pytest.raises(Stopped):
        AnalyzePhase().run(context)


def test_it_reads_nothing_that_changes_no_result():
    phase = AnalyzePhase()
    before = phase.reads(compose("quickstart"))
    words = ["outputs=elsewhere", "tracking=off", "executor.workers=3", "sandbox.concurrency=2"]
    assert phase.reads(compose("quickstart", words)) == before
    assert phase.reads(compose("quickstart", ["description=Another"])) != before
