"""Write the table of flags that travels with the package, from an installed OpenRLHF of the known version.

    python -m runner.training.compile.stored /path/to/python

Run again when ``VERSION`` is raised; a live test holds the table equal to the installed parser.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runner.domain.plain import plain
from runner.training.compile.flag_table import Option
from runner.training.compile.parser import STORED, Flags, Program, find_trainer, read_flags


def table_text(flags: Flags) -> str:
    """The file's text: one option a line, in the order of the programs."""
    blocks = (f'"{program.value}": [\n{_lines(flags[program].values())}\n]' for program in Program)
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _lines(options: Iterable[Option]) -> str:
    return ",\n".join(json.dumps(_row(option)) for option in options)


def _row(option: Option) -> dict[str, Any]:
    """Without what is as usual."""
    usual = plain(Option(name=""))
    return {name: value for name, value in plain(option).items() if value != usual[name]}


def main(python: str) -> None:
    """Read the Python's OpenRLHF and write the file."""
    found = find_trainer(python)
    if found is None:
        raise SystemExit(f"{python} has no OpenRLHF")
    STORED.parent.mkdir(exist_ok=True)
    Path(STORED).write_text(table_text(read_flags(found[1])), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
