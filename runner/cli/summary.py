"""How a finished run reads: phases, attrition, pass@k, kept tasks, and where to look closer."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from runner.phases.analyze.report import report_page
from runner.pipeline import RunResult
from runner.report.text import duration
from runner.schema import Config, Provider
from runner.tracking.base import PhaseReport


def print_summary(screen: Console, config: Config, result: RunResult) -> None:
    reports = {report.phase: report for report in result.reports}
    screen.print(phases_table(result.reports, result.ran))
    if "generate" in reports:
        screen.print(attrition_table(reports["generate"]))
    if "filter" in reports:
        print_tasks(screen, reports["filter"], reports.get("generate"))
    if empty := why_empty(reports):
        screen.print(f"\n[yellow]{empty}[/]", soft_wrap=True)
    sandboxes = {report.tags.get("endless.sandbox", "") for report in result.reports} - {""}
    if sandboxes:
        screen.print(f"sandboxes: {', '.join(sorted(sandboxes))}")
    if Provider.replay in (config.models.generator.provider, config.models.solver.provider):
        screen.print("model replies: recorded (a live run differs by one word: model=claude); all else is real")
    _print_next(screen, config, result)


def phases_table(reports: Sequence[PhaseReport], ran: Sequence[str] | None = None) -> Table:
    """One row a phase: whether it ran, what came out, what it took."""
    table = Table(title="phases", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("phase", "", "result", "time", "calls", "tokens in / out", "cost", "fingerprint"):
        table.add_column(
            name, justify="right" if name in ("time", "calls", "cost") else "left", no_wrap=name != "result"
        )
    for report in reports:
        state = "" if ran is None else ("ran" if report.phase in ran else "already done")
        table.add_row(report.phase, state, _result(report), _time(report), *_spending(report), report.fingerprint[:8])
    return table


def _result(report: PhaseReport) -> str:
    m = report.metrics
    if report.phase == "generate":
        return f"{m['generate/kept']:.0f} of {m['generate/draws']:.0f} draws became tasks"
    if report.phase == "filter":
        return f"{m['filter/kept']:.0f} of {m['filter/tasks']:.0f} tasks kept, {m['filter/episodes']:.0f} episodes"
    if report.phase == "dataset":
        refused = f", {m['dataset/refused']:.0f} refused" if m["dataset/refused"] else ""
        return f"{m['dataset/train']:.0f} to train on, {m['dataset/dev']:.0f} held out{refused}"
    if report.phase in ("sft", "ppo"):
        return _training(report)
    return _scores(report) if report.phase == "evaluate" else _failures(report)


def _scores(report: PhaseReport) -> str:
    """What the recipe's last policy scores, and what it began with; else everybody."""
    m, rows = report.metrics, report.tables["scores"]
    for metric in ("eval/dev/pass_at_1", "eval/train/pass_at_1"):
        if metric in m:
            before = m.get(f"{metric}_before")
            went = "" if before is None else f"{100 * before:.1f} % to "
            return f"pass@1 {went}{100 * m[metric]:.1f} %"
    return "pass@1 " + ", ".join(f"{row['model']} {100 * row['pass_at_1']:.1f} %" for row in rows[:3]) if rows else ""


def _failures(report: PhaseReport) -> str:
    """How many failures were looked at."""
    count = sum(value for name, value in report.metrics.items() if name.endswith("/failed"))
    return f"{count:.0f} failed episodes analysed"


def _training(report: PhaseReport) -> str:
    """Its steps, and how its main figure went from the first of them to the last."""
    name, word = ("sft/loss", "loss") if report.phase == "sft" else ("ppo/reward", "mean reward")
    values = [figures[name] for _, figures in report.curves if name in figures]
    went = f", {word} {values[0]:.2f} to {values[-1]:.2f}" if values else ""
    return f"{report.metrics[f'{report.phase}/steps']:.0f} steps{went}"


def _time(report: PhaseReport) -> str:
    return duration(report.metrics.get(f"{report.phase}/seconds", 0.0))


def _spending(report: PhaseReport) -> tuple[str, str, str]:
    m, phase = report.metrics, report.phase
    if f"{phase}/calls" not in m:
        return "", "", ""
    tokens = f"{m[f'{phase}/input_tokens']:,.0f} / {m[f'{phase}/output_tokens']:,.0f}"
    dollars = m.get(f"{phase}/dollars")
    return f"{m[f'{phase}/calls']:,.0f}", tokens, "unknown" if dollars is None else f"${dollars:,.2f}"


def attrition_table(report: PhaseReport) -> Table:
    """Where draws were lost, in the order of the gates."""
    table = Table(title="\nattrition: how the draws ended", title_justify="left", box=None, pad_edge=False)
    for name in ("draws", "share", "reason", "meaning", "such as"):
        table.add_column(name, justify="right" if name in ("draws", "share") else "left", header_style="bold")
    for row in report.tables["attrition"]:
        style = "green" if row["reason"] == "kept" else None
        share = f"{100 * row['share']:.0f} %"
        table.add_row(str(row["draws"]), share, row["reason"], row["meaning"], row["example"], style=style)
    return table


def why_empty(reports: Mapping[str, PhaseReport]) -> str | None:
    """What it means that a run made nothing to train on, and what to look at; None when it made something."""
    first = next(
        (name for name in ("generate", "filter", "dataset") if name in reports and not _made(reports[name])), ""
    )
    if first == "generate":
        records = escape(str(reports[first].folder / "records.jsonl"))
        return f"No draw became a task, so there is nothing to train on. What was wrong with each: {records}"
    if first == "filter":
        return "The filter kept no task, so there is nothing to train on: see filter.keep, or try another solver."
    if first == "dataset":
        return "Every kept task was refused, so there is nothing to train on: see dataset.max_prompt_tokens."
    return None


def _made(report: PhaseReport) -> float:
    """How many tasks a phase passed on."""
    m = report.metrics
    return m["dataset/train"] + m["dataset/dev"] if report.phase == "dataset" else m[f"{report.phase}/kept"]


def print_tasks(screen: Console, report: PhaseReport, generated: PhaseReport | None, limit: int = 25) -> None:
    """The tasks and the solver's pass@k; nothing where the filter had no task to try."""
    if report.tables["tasks"]:
        screen.print(tasks_table(report, generated, limit))
        screen.print(pass_line(report))


def tasks_table(report: PhaseReport, generated: PhaseReport | None, limit: int = 25) -> Table:
    """One row a task: passes, turns, how its episodes ended."""
    labels = _labels(generated)
    rows = report.tables["tasks"]
    more = f" (the first {limit} of {len(rows)})" if len(rows) > limit else ""
    table = Table(title=f"\ntasks{more}", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for name in ("task", "", "passes", "turns", "category", "episodes ended by"):
        table.add_column(name, justify="right" if name in ("passes", "turns") else "left", overflow="fold")
    for row in rows[:limit]:
        kept = "[green]kept[/]" if row["kept"] else "[yellow]dropped[/]"
        passes = f"{row['passes']}/{row['episodes']}"
        table.add_row(row["task"], kept, passes, f"{row['mean_turns']:.1f}", labels.get(row["task"], ""), row["ends"])
    return table


def _labels(generated: PhaseReport | None) -> dict[str, str]:
    rows: Sequence[Any] = generated.tables["draws"] if generated else ()
    return {row["task"]: next((v for k, v in row.items() if k.startswith("label_")), "") for row in rows}


def pass_line(report: PhaseReport) -> str:
    """``pass@1 0.55   pass@2 0.71 ...``: the mean over all tasks the filter tried."""
    found = {int(k.rpartition("_")[2]): v for k, v in report.metrics.items() if k.startswith("filter/pass_at_")}
    ks = sorted(found)
    shown = [k for k in ks if k & (k - 1) == 0 or k == ks[-1]]  # powers of two, and the last
    return "\nsolver: " + "   ".join(f"pass@{k} {found[k]:.3f}" for k in shown)


def _print_next(screen: Console, config: Config, result: RunResult) -> None:
    outputs = "" if config.outputs == "outputs" else f" --outputs {config.outputs}"
    first = next((row["task"] for r in result.reports if r.phase == "filter" for row in r.tables["tasks"]), "")
    program = _program()
    what = f"episode {first}/0" if first else "run"
    screen.print(f"\nlook closer:\n  {program} show {what}{outputs}", markup=False)
    screen.print(f"  {program} ui{outputs}", markup=False)
    screen.print(f"everything of this run: {result.folder.path}", soft_wrap=True)
    for page in report_pages(result.reports):
        screen.print(f"what it means: {page}", soft_wrap=True)


def report_pages(reports: Iterable[PhaseReport]) -> list[Path]:
    """The report of a run that has one."""
    return [report_page(report.folder) for report in reports if report.phase == "analyze"]


def _program() -> str:
    """How this program can be called again: by name, or by its path where its folder is not on PATH."""
    if shutil.which("endless"):
        return "endless"
    called = os.path.relpath(sys.argv[0])
    return "python -m runner.cli" if called.endswith("__main__.py") else called
