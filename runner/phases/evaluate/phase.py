"""The phase: who is scored, on what, and the scores."""

from typing import Any

from runner.agent.harness import PROMPTS
from runner.domain.plain import plain
from runner.evaluation.harbor.tasks import tasks_identity
from runner.phases.base import Context, Estimate, model_identity, sandbox_identity
from runner.phases.evaluate.dev import evaluate_dev
from runner.phases.evaluate.estimate import evaluation_estimate
from runner.phases.evaluate.report import report as make_report
from runner.phases.evaluate.terminalbench import evaluate_terminalbench
from runner.phases.policy import policy_identity
from runner.prompts import PromptSet
from runner.schema import Config
from runner.schema_evaluation import Dev, Evaluation, TerminalBench
from runner.training.serve import sampling

_ELSEWHERE = ("concurrency", "python", "environment", "dataset", "version", "commit", "path")
"""Keys of a benchmark that change no score, or that its tasks stand for."""


class EvaluatePhase:
    """Models and held-out tasks -> pass@k with intervals, and the differences between them."""

    name = "evaluate"
    version = 1
    upstream: tuple[str, ...] = ("filter", "dataset", "sft", "ppo")

    def reads(self, config: Config) -> Any:
        settings = _settings(config)
        return {
            "dev": _dev_identity(config, settings.dev),
            "terminalbench": _bench_identity(settings.terminalbench),
            "confidence": settings.confidence,
            "seed": config.seed if settings.seed is None else settings.seed,
            "policy": policy_identity(config) if config.training.policy else None,
            "agent": plain(config.agent),
            "sandbox": sandbox_identity(config),
            "prompts": PromptSet.open(PROMPTS, config.agent.prompt).digest,
        }

    def run(self, context: Context) -> None:
        settings = _settings(context.config)
        if settings.dev is not None:
            evaluate_dev(context, settings.dev)
            context.watcher.end(self.name)
        if settings.terminalbench is not None:
            evaluate_terminalbench(context, settings.terminalbench)

    report = staticmethod(make_report)

    def estimate(self, config: Config, items: int) -> Estimate:
        return evaluation_estimate(config, items)


def _settings(config: Config) -> Evaluation:
    assert config.eval is not None, "the recipe has no eval section"
    return config.eval


def _dev_identity(config: Config, dev: Dev | None) -> Any:
    if dev is None:
        return None
    named = {name: model_identity(model) for name, model in dev.models.items()}
    kept = {name: value for name, value in plain(dev).items() if name != "start_seconds"}
    return {**kept, "models": named, "sampling": sampling(config)}


def _bench_identity(bench: TerminalBench | None) -> Any:
    if bench is None:
        return None
    named = {name: model_identity(model) for name, model in bench.models.items()}
    kept = {name: value for name, value in plain(bench).items() if name not in _ELSEWHERE}
    return {**kept, "tasks": tasks_identity(bench), "models": named}
