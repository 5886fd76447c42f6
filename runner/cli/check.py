"""``endless tasks check PATH... [--sandbox X] [--json]``: are these tasks sound?"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from runner.cli.console import console, log_to
from runner.cli.signals import exit_code, leave
from runner.compose.section import typed_section
from runner.domain.episode import Outcome
from runner.phases.check import CheckResult, check_paths
from runner.sandbox.registry import open_backend
from runner.schema import Sandbox

_COLOUR = {Outcome.PASS: "green", Outcome.FAIL: "yellow", Outcome.INFRA: "red"}


def main(arguments: argparse.Namespace) -> int:
    """Exit code 0 when every task passes, 1 otherwise."""
    log_to(console(stderr=True), verbose=False)
    settings = replace(typed_section(Sandbox, arguments.set), backend=arguments.sandbox)
    backend = open_backend(settings, cache=Path(arguments.outputs).absolute() / "cache", run_label="tasks-check")
    try:
        backend.reap()
        paths = [Path(path) for path in arguments.paths]
        results = check_paths(paths, backend, concurrency=settings.concurrency)
        worst = _print_json(results) if arguments.json else _print_lines(console(), results)
    except KeyboardInterrupt as interrupt:
        backend.close()
        leave("interrupted", exit_code(interrupt))
    finally:
        backend.close()
    return worst


def _print_json(results: Iterator[CheckResult]) -> int:
    code = 0
    for result in results:
        print(json.dumps(result.row(), ensure_ascii=False), flush=True)
        code = max(code, int(result.outcome is not Outcome.PASS))
    return code


def _print_lines(screen: Console, results: Iterator[CheckResult]) -> int:
    counts = dict.fromkeys(Outcome, 0)
    for result in results:
        counts[result.outcome] += 1
        steps = {"build": result.build, "initial": result.initial, "final": result.final, "oracle": result.oracle}
        told = "  ".join(f"{name} {'-' if outcome is None else outcome.value}" for name, outcome in steps.items())
        colour = _COLOUR[result.outcome]
        screen.print(
            f"[{colour}]{result.outcome.value:<5}[/] {escape(result.id)}  [dim]{told}  {result.seconds:.1f} s[/]"
        )
        if result.reason:
            screen.print(f"      {result.reason}", style=colour, markup=False)
    screen.print("\n" + ", ".join(f"{count} {outcome.value}" for outcome, count in counts.items()))
    screen.print("final: fail is right, the environment is untouched", style="dim")
    return 0 if counts[Outcome.PASS] == sum(counts.values()) else 1
