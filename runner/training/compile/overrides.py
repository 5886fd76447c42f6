"""Every flag goes through the trainer's own parser; the user's (``training.flags``) come last and win.

``training.flags`` is a mapping of a flag's name, without dashes, to its value: a scalar, a list for flags that take
several, true for a switch, and false or null to leave out one that we would set.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from runner.domain.errors import RecipeError
from runner.training.compile.command import Flag
from runner.training.compile.flag_table import Option, Refused, build_parser
from runner.training.compile.parser import Flags, FlagTable, Program


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The flags of a command, each once, all known to the parser."""

    flags: tuple[Flag, ...]
    notes: tuple[str, ...]
    """Which of ours were replaced."""

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word for one in self.flags for word in one.words)


def finish(ours: Iterable[Flag], own: Mapping[str, Any], table: FlagTable, program: Program) -> Checked:
    """Our flags with the user's on top, checked. Raises RecipeError naming the recipe's key."""
    computed = {one.name: one for one in ours}
    wanted = {name: value for name, value in _named(own, table.flags).items() if name in table.flags[program]}
    replaced = [computed[name] for name in wanted if name in computed]
    kept = [one for name, one in computed.items() if name not in wanted]
    added = [_own_flag(name, value) for name, value in wanted.items() if value is not None and value is not False]
    check_flags([*kept, *added], table.flags[program])
    return Checked(flags=(*kept, *added), notes=tuple(_note(one, wanted[one.name]) for one in replaced))


def check_flags(flags: Sequence[Flag], options: Mapping[str, Option]) -> None:
    """Raise RecipeError for the first flag that the parser would not take."""
    parser = build_parser(options)
    for one in flags:
        if one.name not in options:
            raise RecipeError(f"{one.key}: OpenRLHF has no flag {one.name}{_near(one.name, options)}")
        try:
            parser.parse_args(one.words)
        except Refused as refusal:
            raise RecipeError(f"{one.key}: OpenRLHF does not take {' '.join(one.words)}: {refusal}") from None


def _named(own: Mapping[str, Any], flags: Flags) -> dict[str, Any]:
    """The user's flags under their full names. Raises RecipeError for one that neither program has."""
    named = {f"--{name.removeprefix('--')}": value for name, value in _flat(own, "")}
    known = [name for options in flags.values() for name in options]
    for name in named:
        if name not in known:
            key = name.removeprefix("--")
            raise RecipeError(f"training.flags.{key}: OpenRLHF has no flag {name}{_near(name, known)}")
    return named


def _flat(own: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """``ds: {zpg: 8}`` means ``ds.zpg: 8``: what ``+training.flags.ds.zpg=8`` on the command line makes."""
    for name, value in own.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _own_flag(name: str, value: Any) -> Flag:
    values = () if value is True else value if isinstance(value, list | tuple) else (value,)
    return Flag(name=name, key=f"training.flags.{name.removeprefix('--')}", values=tuple(map(str, values)))


def _note(ours: Flag, value: Any) -> str:
    """What the user's flag does to ours."""
    was = f"{' '.join(ours.words)} (from {ours.key})"
    gone = value is None or value is False
    return f"training.flags leaves out {was}" if gone else f"training.flags replaces {was}"


def _near(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?``: by spelling, else a flag that ends like it."""
    names = list(dict.fromkeys(known))
    last = name.removeprefix("--").rpartition(".")[2]
    near = get_close_matches(name, names, n=2, cutoff=0.7) or [one for one in names if one.endswith(f".{last}")][:3]
    return f"; did you mean {' or '.join(one.removeprefix('--') for one in near)}?" if near else ""
