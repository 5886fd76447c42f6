"""The scores of a run that are means over items, item by item, and its other figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.phases.evaluate.bench import bench_scores
from runner.phases.evaluate.names import first_policy, last_policy, metric_name
from runner.phases.evaluate.report import read_scores
from runner.phases.filter.report import TASKS
from runner.phases.generate.reasons import Reason
from runner.phases.generate.tasks import RECORDS
from runner.pipeline.compile import compile_recipe
from runner.pipeline.run import read_report
from runner.results.runs import Run
from runner.schema import Config
from runner.store.jsonl import read_lines

_LEFT_OUT = ("seconds", "_low", "_high")
"""Times depend on the machine's other work; ends of intervals stand beside their scores."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A score's values by item, each from 0 to 1."""

    unit: str
    values: Mapping[str, float]


def measures(run: Run) -> dict[str, Measure]:
    """By the name of the metric. Only of phases that are done."""
    found: dict[str, Measure] = {}
    for phase, read in (("generate", _draws), ("filter", _tasks), ("evaluate", _evaluated)):
        folder = run.phase_folder(phase)
        if folder is not None and folder.suffix != ".partial":
            found |= dict(read(folder))
    return found


def metrics(run: Run, config: Config, phases: set[str]) -> dict[str, float]:
    """All figures of these phases, as far as they are done; not ``_LEFT_OUT``."""
    found: dict[str, float] = {}
    for step in compile_recipe(config):
        folder = run.phase_folder(step.name)
        if step.name in phases and folder is not None and folder.suffix != ".partial":
            found |= read_report(step, config, folder).metrics
    return {name: value for name, value in found.items() if not name.endswith(_LEFT_OUT)}


def _draws(folder: Path) -> Iterator[tuple[str, Measure]]:
    """The same draw in another run is another reply of the model: its items are never the same."""
    rows = read_lines(folder / RECORDS)
    values = {f"{folder.name}/{row['draw']}": float(row["reason"] == Reason.KEPT) for row in rows}
    yield "generate/keep_rate", Measure(unit="draws", values=values)


def _tasks(folder: Path) -> Iterator[tuple[str, Measure]]:
    rows = list(read_lines(folder / TASKS))
    tried = {row["task_id"]: float(row["pass_rate"]) for row in rows if row["estimate_n"]}
    yield "filter/pass_at_1", Measure(unit="tasks", values=tried)
    yield "filter/keep_rate", Measure(unit="tasks", values={row["task_id"]: float(row["kept"]) for row in rows})


def _evaluated(folder: Path) -> Iterator[tuple[str, Measure]]:
    scores = read_scores(folder)
    models, prefix = scores["models"], f"eval/{scores['split']}"
    named = [
        (f"{prefix}/pass_at_1", last_policy(list(models))),
        (f"{prefix}/pass_at_1_before", first_policy(list(models))),
    ]
    named += [(f"{prefix}/{metric_name(name)}/pass_at_1", name) for name in models]
    for metric, name in named:
        if name:
            yield metric, Measure(unit="tasks", values=models[name]["per_task"])
    for key, rates in bench_scores(folder, {}, level=0.95, seed=0)[1].items():
        yield f"{key}/pass_at_1", Measure(unit="tasks", values=rates)
