"""Reads the hand-labelled episodes of tests/analysis/labelled; the README there describes the form."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from runner.agent.harness import PROMPTS
from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.prompts import PromptSet

FOLDER = Path(__file__).parents[1] / "analysis" / "labelled"


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """An episode and what a reader said about it."""

    name: str
    episode: Episode
    mode: str | None
    expected: str | None
    """What the definition says; another mode only where ``because`` says why."""
    because: str


def labelled_episodes() -> list[Labelled]:
    rows = [row for path in sorted(FOLDER.glob("*.yaml")) for row in yaml.safe_load(path.read_text("utf-8"))]
    return [_labelled(number, row) for number, row in enumerate(rows)]


def _labelled(number: int, row: dict[str, Any]) -> Labelled:
    episode = Episode(
        task_id=f"labelled-{number:02d}",
        sample=0,
        outcome=Outcome(row.get("outcome", "fail")),
        end=EndReason(row["end"]),
        turns=tuple(turn for part in row["turns"] for turn in _turns(part)),
        seconds=10.0,
    )
    return Labelled(
        name=row["name"],
        episode=episode,
        mode=row["mode"],
        expected=row.get("differs", row["mode"]),
        because=row.get("because", ""),
    )


def _turns(part: Any) -> Iterator[Turn]:
    if isinstance(part, str):
        yield {"done": Turn(reply="<action>done</action>"), "cut": Turn(reply="...", invalid="no longer fits")}[part]
        return
    for _ in range(part.get("times", 1)):
        if "cycle" in part:
            yield from (turn for inner in part["cycle"] for turn in _turns(inner))
        elif "each" in part:
            yield from (ran(command, **_result(part)) for command in part["each"])
        elif "invalid" in part:
            yield Turn(reply="prose", invalid=part["invalid"], observation=f"It cannot be used: {part['invalid']}.")
        elif "unrun" in part:
            yield Turn(reply="...", command=part["unrun"])
        else:
            yield ran(part.get("run") or part["stopped"], stopped="stopped" in part, **_result(part))


@cache
def _prompts() -> PromptSet:
    return PromptSet.open(PROMPTS, "default")


def _result(part: dict[str, Any]) -> dict[str, Any]:
    return {name: part[name] for name in ("code", "out", "cwd") if name in part}


def ran(command: str, code: int = 0, out: str = "", cwd: str = "/home/user", *, stopped: bool = False) -> Turn:
    """A command that ran, with the observation that the agent's own prompt set makes of its result."""
    exit_code = None if stopped else code
    status = ["The command ran longer than 30 seconds and was stopped."] if stopped else []
    seen = _prompts().render("observation", exit_code=exit_code, cwd=cwd, output=out, status=status)
    return Turn(
        reply=f"<command>{command}</command>",
        command=command,
        observation=seen,
        exit_code=exit_code,
        timed_out=stopped,
        input_tokens=100,
        output_tokens=10,
    )
