"""A report's data, from the finished phases of a run."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runner.analysis.taxonomy import TaxonomyReport
from runner.phases.analyze.examples import choose
from runner.phases.analyze.failures import Analysed
from runner.phases.base import Context
from runner.phases.evaluate.bench import bench_scores
from runner.phases.evaluate.names import first_policy, last_policy
from runner.phases.evaluate.report import read_scores
from runner.phases.evaluate.scores import compare
from runner.phases.evaluate.terminalbench import BENCH
from runner.phases.filter.report import TASKS
from runner.phases.registry import open_phase
from runner.report.data import PhaseFacts, ReportData
from runner.schema import Config
from runner.store.jsonl import read_lines
from runner.tracking.address import is_server, shown
from runner.tracking.base import PhaseReport

ATTEMPTS = "attempts.json"


def gather(context: Context, analysed: Analysed, last: str, taxonomy: TaxonomyReport | None) -> ReportData:
    """Everything that the report shows."""
    config, upstream = context.config, context.upstream
    reports = {name: open_phase(name).report(config, folder, folder.name) for name, folder in upstream.items()}
    level, seed = confidence(config)
    scores = read_scores(upstream["evaluate"]) if "evaluate" in upstream else {}
    names = list(scores.get("models", {})) or bench_models(upstream)
    before, after = first_policy(names), last_policy(names)
    if before in scores.get("models", {}) and (before, after) not in [
        (pair["before"], pair["after"]) for pair in scores["pairs"]
    ]:
        scores["pairs"].append(compare(before, after, scores["models"], level=level, seed=seed))
    roles = {before: "before", after: "after"}
    bench = bench_scores(upstream["evaluate"], roles, level=level, seed=seed)[0] if scores else []
    return ReportData(
        name=config.name,
        description=config.description,
        settings=list(_settings(config)),
        phases=[_facts(report, upstream) for report in reports.values()],
        tracking=_tracking(context),
        attrition=_table(reports, "generate", "attrition"),
        filtered=_table(reports, "filter", "attrition"),
        solver_tasks=list(read_lines(upstream["filter"] / TASKS)) if "filter" in upstream else [],
        scores=scores,
        before=before,
        after=after,
        bench=bench,
        bench_name=_bench_name(config),
        failures=analysed.sets,
        last=last,
        examples=choose(analysed.failed, last, upstream),
        taxonomy=taxonomy,
        curves={name: report.curves for name, report in reports.items() if report.curves},
        deviations=[row["deviation"] for row in _table(reports, "ppo", "deviations")],
        reference=config.reference,
    )


def bench_models(upstream: Mapping[str, Path]) -> list[str]:
    """Who was scored on the benchmark."""
    return [path.name for path in (upstream.get("evaluate", Path("none")) / BENCH).glob("*")]


def confidence(config: Config) -> tuple[float, int]:
    """Level and seed of the intervals: the evaluation's, where the recipe has one."""
    if config.eval is None:
        return 0.95, config.seed
    return config.eval.confidence, config.seed if config.eval.seed is None else config.eval.seed


def _table(reports: Mapping[str, PhaseReport], phase: str, table: str) -> list[Mapping[str, Any]]:
    return list(reports[phase].tables.get(table, ())) if phase in reports else []


def _facts(report: PhaseReport, upstream: Mapping[str, Path]) -> PhaseFacts:
    lineage = _json(report.folder / "phase.json")
    attempts = _json(report.folder / ATTEMPTS)
    return PhaseFacts(
        name=report.phase,
        fingerprint=report.fingerprint,
        upstream=[name for name in lineage.get("upstream", {}) if name in upstream],
        finished=_finished(report.folder / ATTEMPTS),
        seconds=attempts.get("seconds", 0.0),
        metrics=report.metrics,
        sandbox=attempts.get("sandbox", ""),
    )


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _finished(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC):%Y-%m-%d %H:%M}" if path.exists() else ""


def _settings(config: Config) -> Iterator[tuple[str, str]]:
    """The settings that say most about a result; the frozen recipe has them all."""
    generator, solver, agent = config.models.generator, config.models.solver, config.agent
    yield "recipe", config.name
    trained = "" if config.training.seed is None else f", training {config.training.seed}"
    yield "seed", f"{config.seed}{trained}"
    yield "generator", f"{generator.provider.name} {generator.name}".strip()
    yield "solver", f"{solver.provider.name} {solver.name}".strip()
    yield "draws", f"{config.generate.draws:,}, at most {config.generate.rounds} rounds each"
    yield "agent", f"{agent.max_turns} turns, {agent.context_tokens:,} tokens of context, {agent.episode_seconds:g} s"
    yield "filter", f"{config.filter.n} attempts, keep: {' and '.join(config.filter.keep)}"
    yield "sandbox", f"{config.sandbox.backend}, {config.sandbox.base_image}"
    if config.training.policy:
        yield "policy", _policy(config.training.policy)
    if config.sft is not None:
        yield "SFT", f"{config.sft.epochs} epochs on {config.sft.episodes} episodes"
    if config.ppo is not None:
        ppo = config.ppo
        yield "PPO", f"{ppo.epochs} epochs, {ppo.prompts_per_step} prompts x {ppo.samples_per_prompt} samples a step"
    if config.eval is not None and config.eval.dev is not None:
        times, split = config.eval.dev.samples, config.eval.dev.split.name
        yield "evaluation", f"{times} attempt{'s' if times != 1 else ''} per {split} task"


def _policy(name: str) -> str:
    """A model's name; of a folder of this machine only its own."""
    return Path(name).name if name[0] in "/~." else name


def _bench_name(config: Config) -> str:
    bench = config.eval.terminalbench if config.eval is not None else None
    if bench is None:
        return ""
    return (
        f"Harbor tasks in {Path(bench.path).name}" if bench.path else f"{bench.dataset} {bench.version or ''}".strip()
    )


def _tracking(context: Context) -> str:
    """Where the run can be compared with others. A server by its address; a file of this machine not by its path."""
    tracking = context.config.tracking
    if not tracking.enabled:
        return ""
    experiment, run = tracking.experiment or context.config.name, context.run_label
    server = tracking.uri and is_server(tracking.uri)
    place = f"at {shown(tracking.uri or '')}" if server else "in its outputs folder (endless ui)"
    return f"MLflow: experiment {experiment}, run {run}, {place}."
