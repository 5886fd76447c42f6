"""What an evaluation is expected to take: the models that the recipe names, on its dev tasks and on a benchmark."""

from collections.abc import Iterator

from runner.evaluation.harbor.request import SILENT
from runner.evaluation.harbor.tasks import count_tasks
from runner.phases.base import Estimate
from runner.phases.dataset.split import split
from runner.phases.estimates import episodes_estimate, total
from runner.schema import Config
from runner.schema_evaluation import Dev, TerminalBench


def evaluation_estimate(config: Config, items: int) -> Estimate:
    """Its own policies cost nothing. ``items``: tasks of the recipe."""
    assert config.eval is not None
    dev, bench = config.eval.dev, config.eval.terminalbench
    return total([*_dev(config, dev, items), *_bench(config, bench)])


def _dev(config: Config, dev: Dev | None, items: int) -> Iterator[Estimate]:
    if dev is not None and dev.models:
        episodes = _tasks(config, dev, items) * dev.samples
        for model in dev.models.values():
            yield episodes_estimate(config, model, episodes)


def _bench(config: Config, bench: TerminalBench | None) -> Iterator[Estimate]:
    """Harbor's own agents are taken for ours: nobody knows them beforehand."""
    if bench is None or not bench.models:
        return
    harnesses = sum(harness.agent not in SILENT for harness in bench.harnesses)
    tasks = count_tasks(bench)
    if tasks is None:
        yield Estimate(note=f"Without the tasks of {bench.dataset}: how many there are, Harbor's registry knows.")
        return
    for model in bench.models.values():
        yield episodes_estimate(config, model, tasks * bench.attempts * harnesses)


def _tasks(config: Config, dev: Dev, items: int) -> int:
    ids = [str(index) for index in range(items)]
    settings = config.dataset
    train, held_out = split(
        ids, dev_tasks=settings.dev_tasks, max_dev_share=settings.max_dev_share, seed=settings.split_seed
    )
    return len(held_out if dev.split.name == "dev" else train)
