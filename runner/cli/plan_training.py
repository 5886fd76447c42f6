"""The training part of ``endless plan``: commands, layout, arithmetic, and what OpenRLHF cannot do of the recipe."""

import shlex
import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from runner.training.compile import Command, Counts, TrainingPlan


def print_training(screen: Console, plans: list[TrainingPlan], counts: Counts) -> None:
    """One section a training phase."""
    for plan in plans:
        screen.print(f"\n[bold]{plan.phase}[/]  {_data(plan, counts)}")
        if plan.command is None:
            screen.print(f"  [yellow]{escape(plan.trouble)}[/]", soft_wrap=False)
            continue
        screen.print(Padding(_facts(plan, plan.command), (0, 0, 0, 2)))
        screen.print("\n" + _command_lines(plan, plan.command, screen.width), highlight=False, soft_wrap=True)


def _data(plan: TrainingPlan, counts: Counts) -> str:
    found = f"{counts.passing:,} episodes" if plan.phase == "sft" else f"{counts.train:,} tasks, {counts.dev:,} for dev"
    return found if counts.known else f"about {found}, until the dataset is done"


def _facts(plan: TrainingPlan, command: Command) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, text in (*_sizes(plan, command), *_remarks(command)):
        table.add_row(name, text)
    return table


def _sizes(plan: TrainingPlan, command: Command) -> Iterator[tuple[str, str]]:
    yield "machines", escape("; ".join(command.layout))
    if plan.phase == "ppo":
        yield "steps", f"{command.steps:,} rollouts, {command.optimizer_steps:,} optimizer steps"
        yield "episodes", f"{command.episodes:,}, evaluations included"
        yield (
            "rollout",
            f"about {plan.container_hours:,.1f} container-hours at {plan.episode_seconds:.0f} s an episode; "
            f"{plan.hours_at_once:,.1f} hours on the clock with {plan.live_episodes} at once",
        )
    else:
        yield "steps", f"{command.optimizer_steps:,} optimizer steps"


def _remarks(command: Command) -> Iterator[tuple[str, str]]:
    for title, texts, style in (
        ("flags checked", (command.checked,), ""),
        ("arithmetic", command.notes, ""),
        ("deviations", [str(one) for one in command.deviations], ""),
        ("warning", command.warnings, "yellow"),
    ):
        for number, text in enumerate(texts):
            styled = f"[{style}]{escape(text)}[/]" if style else escape(text)
            yield (title if number == 0 else ""), styled


def _command_lines(plan: TrainingPlan, command: Command, width: int) -> str:
    """The command for a shell, a line for flags that belong together, broken where the terminal ends."""
    head = shlex.join([*plan.submit, plan.python, *command.launcher, "-m", command.module])
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in command.env.items())
    env = textwrap.wrap(variables, width - 4, break_long_words=False, break_on_hyphens=False)
    lines: list[str] = []
    family = ""
    for one in command.flags:
        text, kin = shlex.join(one.words), one.name.partition(".")[0] if "." in one.name else family
        if lines and kin == family and len(lines[-1]) + len(text) + 7 <= width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
        family = kin
    return " \\\n".join([*(f"  {line}" for line in env), f"  {head}", *(f"    {line}" for line in lines)])
