"""``endless run RECIPE [key=value ...]``."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import NoReturn

from rich.console import Console

from runner.cli.console import ConsoleWatcher, console, log_to
from runner.cli.summary import print_summary
from runner.compose import Composition, run_app
from runner.compose.freeze import frozen_text
from runner.phases.work import Stopped
from runner.pipeline import Recipe, run_recipe
from runner.schema import Config
from runner.tracking.open import open_tracker


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    log_to(screen, verbose=arguments.verbose)
    return run_app(
        arguments.words,
        lambda config, composition: run_one(config, composition, screen),
    )


def run_one(config: Config, composition: Composition, screen: Console) -> int:
    """Run one variant and print what came of it."""
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
    with interruptible(screen) as stop:
        try:
            with ConsoleWatcher(screen) as watcher:
                result = run_recipe(recipe, watcher=watcher, tracker=tracker, stop=stop)
        except Stopped as stopped:
            screen.print("stopped; run the same command again to go on")
            raise KeyboardInterrupt from stopped
        except KeyboardInterrupt:
            _leave_at_once(screen)
    print_summary(screen, config, result)
    return 0


def _leave_at_once(screen: Console) -> NoReturn:
    """Threads may still wait for a model's answer, for minutes, and an ordinary exit would wait for them."""
    screen.print("ended at once: answers still on their way are lost; run the same command again to go on")
    sys.stdout.flush()
    os._exit(130)


@contextmanager
def interruptible(screen: Console) -> Iterator[Event]:
    """Ctrl-C and SIGTERM set the event: calls in flight are finished and kept. A second one ends at once."""
    stop = Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        screen.print("stopping: calls in flight are finished and kept (again to stop at once)")

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
