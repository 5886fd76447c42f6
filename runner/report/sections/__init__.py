"""From a run's data to the sections of its report. A section without anything to say is None."""

from runner.report.data import ReportData
from runner.report.document import Document
from runner.report.sections import benchmark, failures, run, scores, summary, tasks, taxonomy, training

_SECTIONS = (
    summary.section,
    run.section,
    scores.section,
    benchmark.section,
    failures.section,
    training.section,
    tasks.section,
    taxonomy.section,
)


def document_of(data: ReportData) -> Document:
    """The report of a run: what came out first, then how."""
    found = [made for make in _SECTIONS if (made := make(data)) is not None]
    return Document(title=f"Report: {data.name}", lead=data.description, sections=found)
