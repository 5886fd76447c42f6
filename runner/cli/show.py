"""``endless show runs|run|task|episode``."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table

from runner.cli.console import console
from runner.cli.episode import show_episode, visible
from runner.cli.summary import attrition_table, phases_table, print_tasks, report_pages, why_empty
from runner.domain.errors import UserError
from runner.domain.task import Task
from runner.results.runs import Run, all_runs, find_episode, find_run, find_task_folder
from runner.store.tasks import read_task


def main(arguments: argparse.Namespace) -> int:
    screen, outputs = console(), Path(arguments.outputs)
    if arguments.what == "runs":
        screen.print(runs_table(all_runs(outputs)))
    elif arguments.what == "run":
        show_run(screen, find_run(outputs, arguments.id or arguments.run))
    elif not arguments.id:
        raise UserError(f"which {arguments.what}? `endless show {arguments.what} ID`; `endless show run` lists them")
    elif arguments.what == "task":
        show_task(screen, read_task(find_task_folder(find_run(outputs, arguments.run), arguments.id)))
    else:
        show_episode(screen, find_episode(find_run(outputs, arguments.run), arguments.id))
    return 0


def runs_table(runs: list[Run]) -> Table:
    """One row a run, the latest last."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("run", "status", "phases done"):
        table.add_column(name)
    for run in runs:
        done = [name for name, phase in run.state["phases"].items() if phase["done"]]
        table.add_row(run.name, run.state["status"], f"{', '.join(done)} of {len(run.state['phases'])}")
    return table


def show_run(screen: Console, run: Run) -> None:
    """The tables that ended the run, from what is on disk."""
    from runner.pipeline.compile import compile_recipe
    from runner.pipeline.run import read_report

    config = run.config()
    reports = {}
    for step in compile_recipe(config):
        folder = run.phase_folder(step.name)
        if folder is not None and folder.suffix != ".partial":
            reports[step.name] = read_report(step, config, folder)
    screen.print(f"[bold]{run.name}[/]  {run.state['status']}  {escape(run.state.get('error', ''))}")
    if reports:
        screen.print(phases_table(list(reports.values())))
    if "generate" in reports:
        screen.print(attrition_table(reports["generate"]))
    if "filter" in reports:
        print_tasks(screen, reports["filter"], reports.get("generate"), limit=1000)
    if empty := why_empty(reports):
        screen.print(f"\n[yellow]{empty}[/]", soft_wrap=True)
    screen.print(f"\n{run.folder.path}", soft_wrap=True)
    for page in report_pages(reports.values()):
        screen.print(f"what it means: {page}", soft_wrap=True)


def show_task(screen: Console, task: Task) -> None:
    """Everything about a task, the hidden parts included."""
    screen.print(Rule(f"task {task.id}", align="left"))
    for name, value in task.labels.items():
        screen.print(f"[dim]{escape(name)}[/] {escape(visible(value))}")
    for name, value in task.metadata.items():
        screen.print(f"[dim]{escape(str(name))}[/] {escape(visible(str(value)))}")
    if task.keep_ports:
        screen.print(f"[dim]grading keeps what listens on port[/] {', '.join(map(str, task.keep_ports))}")
    screen.print(Rule("instruction (what the agent sees)", align="left"))
    screen.print(visible(task.instruction.strip()), markup=False, soft_wrap=True)
    for title, text, language in (
        ("environment/setup.sh", task.environment.setup, "bash"),
        ("environment/start.sh", task.environment.start, "bash"),
        ("health check", task.environment.health.command if task.environment.health else "", "bash"),
        ("hidden: truth", task.truth, "text"),
        ("hidden: tests/test_initial_state.py", task.initial_test, "python"),
        ("hidden: tests/test_final_state.py", task.final_test, "python"),
        ("hidden: tests/test.sh", task.verifier_script, "bash"),
        ("hidden: solution/solve.sh", task.solution, "bash"),
    ):
        if text.strip():
            screen.print(Rule(title, align="left"))
            screen.print(Syntax(visible(text.strip("\n")), language, background_color="default", word_wrap=True))
