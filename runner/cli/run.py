"""``endless run RECIPE [key=value ...]``."""

import argparse
from pathlib import Path

from rich.console import Console

from runner.cli.console import ConsoleWatcher, console, log_to
from runner.cli.signals import Interrupted, exit_code, leave, stopping
from runner.cli.summary import print_summary
from runner.cli.sweep import Variant, finish_sweep
from runner.compose import Composition, run_app
from runner.compose.freeze import frozen_text
from runner.phases.work import Stopped
from runner.pipeline import Recipe, run_recipe
from runner.schema import Config
from runner.tracking.open import open_tracker

AT_ONCE = "ended at once: answers still on their way are lost; run the same command again to go on"


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    log_to(screen, verbose=arguments.verbose)
    variants: list[Variant] = []
    code = run_app(
        arguments.words,
        lambda config, composition: run_one(config, composition, screen, variants),
    )
    finish_sweep(screen, variants)
    return code


def run_one(config: Config, composition: Composition, screen: Console, variants: list[Variant]) -> int:
    """Run one variant and print what came of it; a sweep's are kept in ``variants``."""
    recipe = Recipe(
        config=config,
        plain=dict(composition.plain),
        text=frozen_text(composition),
        name=composition.recipe,
        variant=composition.variant,
        sweep=composition.sweep,
    )
    title = f"[bold]{config.name}[/]" + (f"  {composition.variant}" if composition.variant else "")
    screen.print(title)
    tracker = open_tracker(config.tracking, Path(config.outputs))
    with stopping(screen.print) as stop:
        try:
            with ConsoleWatcher(screen) as watcher:
                result = run_recipe(recipe, watcher=watcher, tracker=tracker, stop=stop)
        except Stopped as stopped:
            screen.print("stopped; run the same command again to go on")
            raise Interrupted(stop.number) from stopped
        except KeyboardInterrupt as interrupt:
            leave(AT_ONCE, exit_code(interrupt))
    print_summary(screen, config, result)
    if composition.sweep is not None:
        variants.append(Variant(folder=result.folder, outputs=Path(config.outputs), text=composition.variant))
    return 0
