"""``endless plan RECIPE [key=value ...]``: what would run, and what it would cost. Runs nothing."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from runner.cli.console import console
from runner.compose import variants
from runner.phases.base import Estimate
from runner.phases.estimates import total
from runner.pipeline.compile import Step, compile_recipe
from runner.pipeline.estimate import step_estimates
from runner.pipeline.layout import Outputs
from runner.schema import Config
from runner.store.artifacts import Store


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    for config, composition in variants(arguments.words):
        steps = compile_recipe(config)
        outputs = Outputs(Path(config.outputs).absolute())
        estimates = step_estimates(config, steps, outputs.store)
        screen.print(f"[bold]{config.name}[/]  {composition.variant}")
        screen.print(_table(config, steps, outputs.store, estimates))
        for line in filter(None, (estimate.note for estimate in estimates)):
            screen.print(line)
        _training(screen, config, steps, outputs.store)
        screen.print(f"run folder: {outputs.run(config, steps).path}\n", soft_wrap=True)
    return 0


def _training(screen: Console, config: Config, steps: list[Step], store: Store) -> None:
    """SFT and PPO, for recipes that have them."""
    if config.sft is None and config.ppo is None:
        return
    from runner.cli.plan_training import print_training
    from runner.pipeline.training_data import training_counts

    print_training(screen, config, training_counts(config, steps, store))
    screen.print()


def _table(config: Config, steps: list[Step], store: Store, estimates: list[Estimate]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", show_footer=True)
    rest = total(e for step, e in zip(steps, estimates, strict=True) if not _done(step, store))
    table.add_column("phase", "to do")
    table.add_column("state")
    table.add_column("fingerprint")
    table.add_column("calls, about", f"{rest.likely_calls:,}", justify="right")
    table.add_column("at most", f"{rest.calls:,}", justify="right")
    table.add_column("tokens in / out", _tokens(rest), justify="right")
    table.add_column("cost, about", _dollars(rest), justify="right")
    table.add_column("model")
    for step, estimate in zip(steps, estimates, strict=True):
        table.add_row(step.name, _state(step, store), step.fingerprint, *_cells(estimate), _model(config, step))
    return table


def _done(step: Step, store: Store) -> bool:
    return store.is_done(step.name, step.fingerprint)


def _state(step: Step, store: Store) -> str:
    if _done(step, store):
        return "[green]done[/]"
    return "[yellow]begun[/]" if store.has_begun(step.name, step.fingerprint) else "to do"


def _cells(estimate: Estimate) -> tuple[str, str, str, str]:
    if not estimate.calls:
        return "0", "0", "", ""
    return f"{estimate.likely_calls:,}", f"{estimate.calls:,}", _tokens(estimate), _dollars(estimate)


def _tokens(estimate: Estimate) -> str:
    """In millions: a plan is no more exact than that."""
    return f"{estimate.input_tokens / 1e6:,.1f} / {estimate.output_tokens / 1e6:,.1f} M"


def _dollars(estimate: Estimate) -> str:
    if not estimate.calls:
        return "$0.00"
    return "unknown" if estimate.dollars is None else f"${estimate.dollars:,.2f}"


def _model(config: Config, step: Step) -> str:
    from runner.pipeline.resources import ROLES

    role = ROLES.get(step.name)
    if role is None:
        return ""
    model = getattr(config.models, role)
    return f"{model.provider.name} {model.name}".strip()
