"""The phase: all draws of a recipe, streaming; then the gates that look at the set as a whole."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from runner.analysis import dedupe
from runner.domain.episode import Outcome
from runner.domain.errors import Incomplete
from runner.domain.plain import fingerprint, plain
from runner.domain.task import Task
from runner.llm.base import Usage
from runner.phases.base import Context, Estimate, Spend, model_identity, sandbox_identity, sandbox_world
from runner.phases.estimates import calls_estimate
from runner.phases.generate.draw import Draw, DrawRecord, Maker
from runner.phases.generate.reasons import Reason
from runner.phases.generate.report import report as make_report
from runner.phases.generate.tasks import RECORDS, task_folder
from runner.phases.work import Lost, run_all
from runner.prompts import PromptSet
from runner.schema import Config
from runner.store.jsonl import append, read_lines, write_rows
from runner.store.tasks import iter_tasks, write_task
from runner.taxonomy import draw as draw_labels

PROMPTS = Path(__file__).parent / "prompts"
DRAWS = "draws.jsonl"
"""One line a draw, as they end, before the gates that look at the whole set."""


CALLS_PER_DRAW = 3.2
INPUT_TOKENS = 1500
OUTPUT_TOKENS = 1000
"""Rough, for estimates: the quickstart takes 38 calls for 12 draws, and 1,530 tokens in and 505 out a call. Models that
think aloud write more than its recorded replies do, so twice the output is expected."""


class GeneratePhase:
    """Taxonomy draws -> verified tasks."""

    name = "generate"
    version = 1
    upstream: tuple[str, ...] = ()

    def reads(self, config: Config) -> Any:
        return {
            "seed": config.seed,
            "taxonomy": plain(config.taxonomy),
            "generator": model_identity(config.models.generator),
            "sandbox": sandbox_identity(config),
            "generate": plain(config.generate),
            "prompts": PromptSet.open(PROMPTS, config.generate.prompt).digest,
            "max_turns": config.agent.max_turns,
            "episode_seconds": config.agent.episode_seconds,
        }

    def run(self, context: Context) -> None:
        if not (context.folder / RECORDS).exists():
            records = self._make_tasks(context)
            judged = judge_set(context.config, context.folder, records)
            write_rows(context.folder / RECORDS, (plain(record) for record in judged))
        _remove_dropped(context.folder)

    report = staticmethod(make_report)

    def estimate(self, config: Config, items: int) -> Estimate:
        draws = config.generate.draws
        likely, most = round(CALLS_PER_DRAW * draws), 3 * config.generate.rounds * draws
        usage = Usage(input_tokens=likely * INPUT_TOKENS, output_tokens=likely * OUTPUT_TOKENS)
        return calls_estimate(config, config.models.generator, usage, calls=most, likely=likely)

    def _make_tasks(self, context: Context) -> list[DrawRecord]:
        config = context.config
        done = {row["draw"]: DrawRecord.from_plain(row) for row in read_lines(context.folder / DRAWS)}
        todo = [i for i in range(config.generate.draws) if i not in done]
        context.watcher.begin(self.name, config.generate.draws, len(done))
        lost: dict[int, str] = {}
        if todo:
            self._run_draws(context, todo, done, lost)
        context.watcher.end(self.name)
        return [*done.values(), *_lost_records(config, lost)]

    def _run_draws(
        self,
        context: Context,
        todo: list[int],
        done: dict[int, DrawRecord],
        lost: dict[int, str],
    ) -> None:
        config = context.config
        maker = Maker(
            config=config,
            client=context.resources.client("generator"),
            backend=context.resources.backend(),
            prompts=PromptSet.open(PROMPTS, config.generate.prompt),
            scope=answer_scope(config),
        )

        def on_end(draw: Draw, result: DrawRecord | Lost) -> None:
            dedupe.load()  # now, while models answer to other draws; not when all of them wait for the last gates
            if isinstance(result, Lost):
                lost[draw.index] = result.cause
                context.watcher.advance(self.name, Outcome.INFRA, "infra")
                return
            append(context.folder / DRAWS, plain(result))
            done[draw.index] = result
            kept = result.reason is Reason.KEPT
            context.watcher.advance(self.name, Outcome.PASS if kept else Outcome.FAIL, result.reason)

        work = partial(_make_and_store, maker, context.folder)
        run_all(_draws(config, todo), work, on_end, executor=config.executor, stop=context.stop)


def answer_scope(config: Config) -> str:
    """What recorded answers depend on beyond their requests. Not what is only done with them: a changed similarity
    threshold or number of rounds pays for nothing again.
    """
    prompts = PromptSet.open(PROMPTS, config.generate.prompt).digest
    return fingerprint(config.seed, sandbox_world(config), prompts, config.generate.log_tokens)


def _draws(config: Config, indices: list[int]) -> Iterator[Draw]:
    for index in indices:
        yield Draw(index=index, labels=draw_labels(config.taxonomy, config.seed, index))


def _make_and_store(maker: Maker, folder: Path, draw: Draw) -> DrawRecord:
    record, task = maker.make(draw)
    if task is not None:
        write_task(task_folder(folder, task.id), task)
    return record


def _lost_records(config: Config, lost: dict[int, str]) -> list[DrawRecord]:
    """Records for draws lost to infrastructure, if the recipe tolerates so many. Raises Incomplete otherwise."""
    if len(lost) > config.executor.infra_share * config.generate.draws:
        cause = next(iter(lost.values()))
        raise Incomplete(
            f"{len(lost)} of {config.generate.draws} draws were lost to infrastructure trouble; "
            f"run the same command again to retry them. The first: {cause}"
        )
    return [
        DrawRecord(
            draw=draw.index,
            labels=draw.labels,
            reason=Reason.INFRA,
            detail=lost[draw.index],
            rounds={},
            spend=Spend(),
            seconds=0.0,
        )
        for draw in _draws(config, sorted(lost))
    ]


def judge_set(config: Config, folder: Path, records: list[DrawRecord]) -> list[DrawRecord]:
    """Mark near-duplicates and contaminated tasks, in draw order, so that the result does not depend on timing."""
    threshold = config.generate.duplicate_similarity
    benchmarks, seen = dedupe.SimilarityIndex(threshold), dedupe.SimilarityIndex(threshold)
    for task in _benchmark_tasks(config):
        benchmarks.add(task.id, task.instruction)
    judged = []
    for record in sorted(records, key=lambda r: r.draw):
        if record.reason is Reason.KEPT:
            record = _judge_one(record, folder, benchmarks, seen)
        judged.append(record)
    return judged


def _benchmark_tasks(config: Config) -> Iterator[Task]:
    for path in config.generate.decontaminate:
        yield from iter_tasks(Path(path))


def _judge_one(
    record: DrawRecord, folder: Path, benchmarks: dedupe.SimilarityIndex, seen: dedupe.SimilarityIndex
) -> DrawRecord:
    text = (task_folder(folder, record.task_id) / "instruction.md").read_text(encoding="utf-8")
    for index, reason in ((benchmarks, Reason.CONTAMINATED), (seen, Reason.NEAR_DUPLICATE)):
        match = index.nearest(text)
        if match:
            return replace(record, reason=reason, detail=f"similarity {match[1]:.2f} to {match[0]}")
    seen.add(record.task_id, text)
    return record


def _remove_dropped(folder: Path) -> None:
    """Delete the folders of tasks that the last gates dropped. Safe to run again after a crash."""
    for row in read_lines(folder / RECORDS):
        if row["task_id"] and row["reason"] != Reason.KEPT:
            shutil.rmtree(task_folder(folder, row["task_id"]), ignore_errors=True)
