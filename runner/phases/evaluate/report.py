"""What a finished evaluation tells: a row per model, the differences between them, and the scores worth comparing."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from runner.phases.evaluate.bench import bench_metrics, bench_scores
from runner.phases.evaluate.dev import MODELS, SCORES, episodes_file
from runner.phases.evaluate.names import first_policy, last_policy, metric_name
from runner.phases.filter.report import sample_episodes
from runner.schema import Config
from runner.tracking.base import PhaseReport

Scores = Mapping[str, Any]


def report(config: Config, folder: Path, fingerprint: str) -> PhaseReport:
    scores = read_scores(folder)
    names = list(scores["models"])
    last = last_policy(names)
    return PhaseReport(
        phase="evaluate",
        fingerprint=fingerprint,
        folder=folder,
        metrics={**dict(_metrics(scores)), **_benchmark(config, folder)},
        tables={"scores": [_row(name, row) for name, row in scores["models"].items()], "pairs": scores["pairs"]},
        artifacts=[path for path in (folder / MODELS, folder / "dev" / SCORES) if path.exists()],
        episodes=sample_episodes(episodes_file(folder, last).parent, config.tracking.episode_traces) if last else (),
        tags={"endless.best": scores["best"]} if scores["best"] else {},
    )


def _benchmark(config: Config, folder: Path) -> dict[str, float]:
    settings = config.eval
    if settings is None or settings.terminalbench is None:
        return {}
    seed = config.seed if settings.seed is None else settings.seed
    scores, _ = bench_scores(folder, {}, level=settings.confidence, seed=seed)
    names = [score.model for score in scores]
    return dict(bench_metrics(scores, first_policy(names), last_policy(names)))


def read_scores(folder: Path) -> dict[str, Any]:
    """``dev/scores.json``, or scores of nobody."""
    path = folder / "dev" / SCORES
    if not path.exists():
        return {"split": "dev", "models": {}, "pairs": [], "best": ""}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _metrics(scores: Scores) -> Iterator[tuple[str, float]]:
    models, prefix = scores["models"], f"eval/{scores['split']}"
    for name, row in models.items():
        yield from _of_model(f"{prefix}/{metric_name(name)}", row)
    for suffix, name in (("", last_policy(list(models))), ("_before", first_policy(list(models)))):
        rate = models[name]["pass_at"].get("1") if name else None
        if rate is not None:
            yield f"{prefix}/pass_at_1{suffix}", rate["value"]
            yield f"{prefix}/pass_at_1{suffix}_low", rate["low"]
            yield f"{prefix}/pass_at_1{suffix}_high", rate["high"]


def _of_model(prefix: str, row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for k, rate in row["pass_at"].items():
        yield f"{prefix}/pass_at_{k}", rate["value"]
    if "1" in row["pass_at"]:
        yield f"{prefix}/pass_at_1_low", row["pass_at"]["1"]["low"]
        yield f"{prefix}/pass_at_1_high", row["pass_at"]["1"]["high"]
    for name in ("tasks", "episodes", "infra", "infra_rate", "time_limit_rate", "mean_turns", "mean_seconds"):
        yield f"{prefix}/{name}", float(row[name])


def _row(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    rate = row["pass_at"].get("1", {"value": 0.0, "low": 0.0, "high": 0.0})
    top = max(row["pass_at"], key=int, default="1")
    return {
        "model": name,
        "pass_at_1": round(rate["value"], 4),
        "low": round(rate["low"], 4),
        "high": round(rate["high"], 4),
        f"pass_at_{top}": round(row["pass_at"].get(top, rate)["value"], 4),
        "tasks": row["tasks"],
        "episodes": row["episodes"],
        "infra": row["infra"],
        "time_limit": round(row["time_limit_rate"], 4),
        "mean_turns": round(row["mean_turns"], 2),
    }
