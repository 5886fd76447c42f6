"""The training part of ``endless plan``: commands, layout, arithmetic, and what OpenRLHF cannot do of the recipe."""

import shlex
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from runner.schema import Config
from runner.training.compile import Command, Counts, TrainingPlan, training_plan
from runner.training.compile.command import Flag
from runner.training.run import command_words


def print_training(screen: Console, config: Config, counts: Counts) -> None:
    """One section a training phase."""
    for plan in training_plan(config, counts):
        screen.print(f"\n[bold]{plan.phase}[/]  {_data(plan, counts)}")
        if plan.command is None:
            screen.print(f"  [yellow]{escape(plan.trouble)}[/]", soft_wrap=False)
            continue
        screen.print(Padding(_facts(plan, plan.command), (0, 0, 0, 2)))
        screen.print("\n" + _command_lines(config, plan, plan.command, screen.width), highlight=False, soft_wrap=True)


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


def _command_lines(config: Config, plan: TrainingPlan, command: Command, width: int) -> str:
    """The command for a shell, a line for flags that belong together, broken where the terminal ends."""
    start = command_words(config, command)[: -len(command.argv)]
    head = shlex.join([*plan.submit, plan.python, *start[1:]])
    env = _packed(((f"{name}={shlex.quote(value)}", "env") for name, value in command.env.items()), width - 4)
    flags = _packed(((shlex.join(one.words), _family(one)) for one in command.flags), width - 6)
    return " \\\n".join([*(f"  {line}" for line in env), f"  {head}", *(f"    {line}" for line in flags)])


def _family(one: Flag) -> str:
    """What stands on one line: ``actor``, ``critic``, ``data``; SFT's optimizer has flags without a family name."""
    first, dot, _ = one.name.removeprefix("--").partition(".")
    return first if dot and first != "adam" else "optimizer"


def _packed(items: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Texts of one family side by side, as far as they fit."""
    lines: list[str] = []
    family = ""
    for text, kin in items:
        if lines and kin == family and len(lines[-1]) + 1 + len(text) <= width:
            lines[-1] += f" {text}"
        else:
            lines.append(text)
        family = kin
    return lines
