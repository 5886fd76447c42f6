"""How training went, and where it is not what the recipe asked for."""

from collections.abc import Iterator

from runner.report.data import ReportData
from runner.report.document import Block, Bullets, Paragraph, Section, Table
from runner.report.figures.training import PPO, SFT, curves, series
from runner.report.text import number

_TITLES = {"sft": "Supervised fine-tuning", "ppo": "PPO"}


def section(data: ReportData) -> Section | None:
    """None where nothing was trained."""
    trained = {phase: points for phase, points in data.curves.items() if points}
    blocks = list(_blocks(data, list(trained)))
    return Section(title="Training", blocks=blocks) if blocks else None


def _blocks(data: ReportData, phases: list[str]) -> Iterator[Block]:
    for phase in phases:
        wanted = PPO if phase == "ppo" else SFT
        drawn = curves(f"training-{phase}", f"{_TITLES[phase]}, step by step", data.curves[phase], wanted)
        if drawn is not None:
            yield drawn
    rows = [row for phase in phases for row in _rows(data, phase)]
    if rows:
        yield Table(columns=("figure", "first step", "last step", "lowest", "highest"), rows=rows)
    if data.deviations:
        yield Paragraph(text="What the trainer cannot do of what the recipe, and the paper, ask for:")
        yield Bullets(items=data.deviations)


def _rows(data: ReportData, phase: str) -> Iterator[list[str]]:
    for key, text in PPO if phase == "ppo" else SFT:
        _, values = series(data.curves[phase], key)
        if values:
            yield [f"{phase}: {text}", *(number(v) for v in (values[0], values[-1], min(values), max(values)))]
