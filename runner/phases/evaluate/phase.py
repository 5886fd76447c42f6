"""The phase: who is scored, on what, and the scores."""

from typing import Any

from runner.agent.harness import PROMPTS
from runner.domain.plain import plain
from runner.phases.base import Context, Estimate, model_identity, sandbox_identity
from runner.phases.dataset.split import split
from runner.phases.evaluate.dev import evaluate_dev
from runner.phases.evaluate.report import report as make_report
from runner.phases.evaluate.terminalbench import evaluate_terminalbench
from runner.phases.filter.phase import OUTPUT_TOKENS, PROMPT_TOKENS, TOKENS_PER_TURN, TURNS
from runner.phases.policy import policy_identity
from runner.prompts import PromptSet
from runner.schema import Config
from runner.schema_evaluation import Dev, Evaluation, TerminalBench
from runner.training.serve import sampling


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
        """Calls of the models that the recipe names; its own policies cost nothing."""
        dev = _settings(config).dev
        if dev is None or not dev.models:
            return Estimate(note="its own policies cost nothing")
        episodes, turns = _tasks(config, dev, items) * dev.samples * len(dev.models), min(TURNS, config.agent.max_turns)
        return Estimate(
            calls=episodes * config.agent.max_turns,
            likely_calls=episodes * turns,
            input_tokens=episodes * sum(PROMPT_TOKENS + TOKENS_PER_TURN * turn for turn in range(turns)),
            output_tokens=episodes * turns * OUTPUT_TOKENS,
        )


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
    kept = {name: value for name, value in plain(bench).items() if name not in ("concurrency", "python", "environment")}
    return {**kept, "models": named}


def _tasks(config: Config, dev: Dev, items: int) -> int:
    ids = [str(index) for index in range(items)]
    settings = config.dataset
    train, held_out = split(
        ids, dev_tasks=settings.dev_tasks, max_dev_share=settings.max_dev_share, seed=settings.split_seed
    )
    return len(held_out if dev.split.name == "dev" else train)
