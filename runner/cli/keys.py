"""``endless keys [PREFIX]``: the recipe's manual."""

import argparse

from rich.markup import escape

from runner.cli.console import console
from runner.compose import describe_keys
from runner.domain.errors import UserError


def main(arguments: argparse.Namespace) -> int:
    screen = console()
    found = [entry for entry in describe_keys() if entry.key.startswith(arguments.filter)]
    if not found:
        raise UserError(f"no key starts with {arguments.filter!r}; `endless keys` lists them all")
    for entry in found:
        default = "" if entry.type == "section" or entry.default is None else f" = {entry.default}"
        screen.print(f"[bold]{escape(entry.key)}[/]  [dim]{escape(entry.type + default)}[/]")
        if entry.doc:
            screen.print(f"    {entry.doc}", markup=False)
    return 0
