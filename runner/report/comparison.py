"""Several runs side by side, as a document: which settings differ, which figures differ, and what that can mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from runner.analysis.comparison import Comparison
from runner.analysis.statistics import Interval
from runner.report.document import Block, Document, Paragraph, Section, Table
from runner.report.figures.scores import Dot, dots
from runner.report.text import NOTHING, change, number, one_line, p_value, rate

MOST_FIGURES = 4


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One run."""

    label: str
    """Short: a letter, or what tells a sweep's variant from its siblings."""
    name: str
    """Its folder's."""
    recipe: str
    status: str
    phases: Mapping[str, str]
    """Phase -> fingerprint."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A key of the recipe whose value changes results, and is not the same everywhere."""

    key: str
    values: Sequence[str]
    """One per run."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A score in one run."""

    value: float
    interval: Interval
    items: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score that is a mean over items, so that its difference can be tested."""

    name: str
    """Of the metric."""
    unit: str
    """What the items are: ``tasks`` or ``draws``."""
    runs: Sequence[Measured | None]
    against_first: Sequence[Comparison | None]
    """Every later run against the first."""
    p_values: Sequence[float | None]
    """Of those, corrected where there are several."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure that is one number a run."""

    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """All that is to be said."""

    runs: Sequence[Compared]
    settings: Sequence[Setting]
    scores: Sequence[Score]
    metrics: Sequence[Metric]
    level: float

    @property
    def labels(self) -> list[str]:
        return [run.label for run in self.runs]

    @property
    def corrected(self) -> bool:
        """Whether p-values are corrected for their number."""
        return len(self.runs) > 2


def comparison_document(found: RunComparison) -> Document:
    """The page of a comparison. A part without anything to say is left out."""
    sections = [
        Section(title="Runs", blocks=[_runs(found), _phases(found)]),
        Section(
            title="What differs in the recipe", blocks=[settings_table(found), Paragraph(text=SETTINGS, small=True)]
        ),
    ]
    if found.scores:
        sections.append(Section(title="Scores", blocks=list(_scores(found))))
    if found.metrics:
        remark = Paragraph(text="Counts and means of single runs; not tested.", small=True)
        sections.append(Section(title="Other figures that differ", blocks=[metrics_table(found), remark]))
    lead = f"{len(found.runs)} runs: {', '.join(run.name for run in found.runs)}."
    return Document(title="Comparison", lead=lead, sections=sections)


SETTINGS = (
    "Keys that change no result (where outputs and tracking lie, concurrency, retries, prices, names) are left out: "
    "a key is listed when its value in one run would make other results in another."
)


def _runs(found: RunComparison) -> Table:
    rows = [[run.label, run.name, run.recipe, run.status] for run in found.runs]
    return Table(columns=("", "run", "recipe", "status"), rows=rows, texts=4)


def _phases(found: RunComparison) -> Table:
    names = list(dict.fromkeys(name for run in found.runs for name in run.phases))
    rows = [[name, *(run.phases.get(name, NOTHING) for run in found.runs)] for name in names]
    caption = "Fingerprints: equal ones are the same results"
    return Table(caption=caption, columns=["phase", *found.labels], rows=rows, texts=1 + len(found.runs))


def settings_table(found: RunComparison) -> Table:
    """A row per key."""
    rows = [[setting.key, *setting.values] for setting in found.settings] or [["nothing", *["" for _ in found.runs]]]
    return Table(columns=["key", *found.labels], rows=rows, texts=1 + len(found.runs))


def _scores(found: RunComparison) -> Iterator[Block]:
    for place, score in enumerate(found.scores[:MOST_FIGURES]):
        rows = [_dot(label, run) for label, run in zip(found.labels, score.runs, strict=True) if run is not None]
        subtitle = f"mean over {score.unit}, with {100 * found.level:.0f} % interval (bootstrap over {score.unit})"
        yield dots(f"compare-{place + 1}", score.name, subtitle, rows)
    yield scores_table(found)
    yield differences_table(found)
    yield Paragraph(text=method(found), small=True)


def _dot(label: str, run: Measured) -> Dot:
    return Dot(label=label, value=run.value, low=run.interval.low, high=run.interval.high)


def scores_table(found: RunComparison) -> Table:
    """A row per score, a column per run."""
    rows = [[score.name, *(_measured(run) for run in score.runs)] for score in found.scores]
    return Table(columns=["score", *found.labels], rows=rows)


def _measured(run: Measured | None) -> str:
    return NOTHING if run is None else rate(run.value, run.interval.low, run.interval.high)


def differences_table(found: RunComparison) -> Table:
    """A row per score and later run."""
    p = "p (Holm)" if found.corrected else "p"
    columns = ("score", "runs", "points", p, "signif.", "compared")
    return Table(caption="Differences, in percentage points", columns=columns, rows=list(_differences(found)), texts=2)


def _differences(found: RunComparison) -> Iterator[list[str]]:
    first, *others = found.labels
    for score in found.scores:
        for label, comparison, p in zip(others, score.against_first, score.p_values, strict=True):
            if comparison is not None and p is not None:
                interval = comparison.interval
                yield [
                    score.name,
                    f"{first} → {label}",
                    change(comparison.delta, interval.low, interval.high),
                    p_value(p),
                    "yes" if p < 1 - found.level else "no",
                    how(comparison, score.unit),
                ]


def how(comparison: Comparison, unit: str) -> str:
    """``paired, 37 tasks`` or ``unpaired, 9 and 8 tasks``."""
    one, other = comparison.items
    return f"paired, {one} {unit}" if comparison.is_paired else f"unpaired, {one} and {other} {unit}"


def metrics_table(found: RunComparison) -> Table:
    """A row per metric, a column per run."""
    rows = [[metric.name, *(number(value) for value in metric.values)] for metric in found.metrics]
    return Table(columns=["metric", *found.labels], rows=rows)


def method(found: RunComparison) -> str:
    """How the differences were tested."""
    text = (
        "Differences are those to the first run. Paired: over the tasks that both have, sign-flip permutation test, "
        "bootstrap over tasks. Unpaired: the runs have other tasks; permutation test of the difference of means, "
        "square-and-add interval."
    )
    if found.corrected:
        text += " p-values are corrected for the number of runs (Holm), score by score; not for the number of scores."
    return f"{text} Significant: p below {1 - found.level:.2g}."


def shown_value(value: object) -> str:
    """A setting's value, short enough for a table."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "set"
    return one_line(str(value).lower() if isinstance(value, bool) else str(value), 60)
