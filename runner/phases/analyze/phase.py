"""The phase: analyse every episode of the run, then write down what it all means."""

from typing import Any

from runner.analysis.settings import AnalysisSettings
from runner.domain.plain import plain
from runner.phases.analyze.failures import Analysed, analyse
from runner.phases.analyze.gather import confidence, gather
from runner.phases.analyze.labels import taxonomy_of
from runner.phases.analyze.report import PAGE, SUMMARY, TAXONOMY
from runner.phases.analyze.report import report as make_report
from runner.phases.analyze.sources import Source, last_key, sources, task_labels
from runner.phases.base import Context, Estimate
from runner.report.files import write_document
from runner.report.sections import document_of
from runner.schema import Config
from runner.store.jsonl import write_json
from runner.tracking.secrets import Secrets

SETTINGS = AnalysisSettings()


class AnalyzePhase:
    """All that a run made -> failures, summaries, the taxonomy's report, and the report."""

    name = "analyze"
    version = 1
    upstream: tuple[str, ...] = ("generate", "filter", "dataset", "sft", "ppo", "evaluate")

    def reads(self, config: Config) -> Any:
        """The thresholds, and what the report says about the recipe itself."""
        level, seed = confidence(config)
        return {
            "settings": plain(SETTINGS),
            "confidence": level,
            "seed": seed,
            "recipe": [config.name, config.description],
            "reference": plain(config.reference),
            "prices": plain(config.prices),
        }

    def run(self, context: Context) -> None:
        level, seed = confidence(context.config)
        found = sources(context.upstream)
        context.watcher.begin(self.name, 0, 0)
        analysed = analyse(found, SETTINGS, task_labels(context.upstream), context)
        taxonomy = taxonomy_of(context.config, context.upstream, level=level, seed=seed)
        last = last_key(found)
        write_json(context.folder / SUMMARY, _summary(found, analysed, last))
        write_json(context.folder / TAXONOMY, plain(taxonomy))
        document = document_of(gather(context, analysed, last, taxonomy))
        write_document(document, context.folder, PAGE, Secrets().text)
        context.watcher.end(self.name)

    report = staticmethod(make_report)

    def estimate(self, config: Config, items: int) -> Estimate:
        return Estimate()


def _summary(found: list[Source], analysed: Analysed, last: str) -> dict[str, Any]:
    metrics = {source.key: source.metric for source in found}
    sets = [
        {"key": one.key, "metric": metrics[one.key], "title": one.title, "summary": plain(one.summary)}
        for one in analysed.sets
    ]
    return {"settings": plain(SETTINGS), "last": last, "sets": sets}
