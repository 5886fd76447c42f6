"""A sweep: sibling runs with the same metrics, phases that did not change made once, a sweep cut short gone on with."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agreeable import ENVIRONMENT, WORDS
from support.endless import Workplace, live_overrides, quickstart_server
from support.loopback import Chance, Fault, Loopback
from support.stores import Store

from runner.phases.generate.reasons import Reason
from runner.tracking.address import default_uri
from runner.tracking.mlflow.quiet import quiet_mlflow

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SMALL = ("generate.draws=5", "filter.n=2")
VARIANTS = ("nothing", "scenario", "complexity")


@pytest.fixture(scope="module")
def ablation(tmp_path_factory: pytest.TempPathFactory, local_words: tuple[str, ...]) -> Workplace:
    """A workplace in which the quickstart was run and then the taxonomy's ablation."""
    place = Workplace(tmp_path_factory.mktemp("ablation") / "work", local_words)
    place.run("quickstart", *SMALL)
    place.run("ablation/taxonomy", *SMALL)
    return place


@pytest.fixture
def siblings(ablation: Workplace) -> Iterator[dict[str, Any]]:
    """Variant -> its run in MLflow, all below the one run of the sweep."""
    with quiet_mlflow(10.0):
        store = Store(default_uri(ablation.store.parent), "ablation/taxonomy")
        (sweep,) = store.parents()
        assert sweep.info.status == "FINISHED"
        found = list(store.children(sweep).values())
        yield {run.data.tags["endless.variant"].removeprefix("drop="): run for run in found}


def test_variants_are_siblings_with_the_same_metrics(siblings: dict[str, Any]) -> None:
    assert set(siblings) == set(VARIANTS)
    assert {run.info.status for run in siblings.values()} == {"FINISHED"}
    names = {variant: set(run.data.metrics) for variant, run in siblings.items()}
    assert names["scenario"] == names["nothing"]
    assert names["complexity"] == names["nothing"]
    assert {f"generate/dropped/{reason}" for reason in Reason if reason is not Reason.KEPT} < names["nothing"]
    assert {"generate/kept", "filter/pass_at_1", "filter/pass_at_2", "dataset/train"} <= names["nothing"]


def test_variants_differ_in_the_dropped_dimension_alone(siblings: dict[str, Any]) -> None:
    whole = siblings["nothing"].data.params
    for variant in ("scenario", "complexity"):
        params = siblings[variant].data.params
        other = {name for name in {*whole, *params} if whole.get(name) != params.get(name)}
        assert other
        assert all(name.startswith(f"taxonomy.dimensions.{variant}") for name in other), other


def test_the_variant_that_drops_nothing_shares_all_its_phases_with_the_quickstart(ablation: Workplace) -> None:
    for phase in ("generate", "filter", "dataset"):
        assert len(finished(ablation, phase)) == len(VARIANTS), (
            "the quickstart's, which is the first variant's, and two"
        )


def test_the_same_sweep_again_does_nothing(ablation: Workplace, siblings: dict[str, Any]) -> None:
    printed = ablation.run("ablation/taxonomy", *SMALL)
    assert printed.count("already done") == len(VARIANTS) * 4


def test_the_sweep_ends_in_one_page_whose_differing_keys_are_the_swept_ones(ablation: Workplace) -> None:
    (page,) = (ablation.folder / "outputs" / "runs").glob("sweep-*/compare.html")
    assert f"the {len(VARIANTS)} variants side by side: {page}" in ablation.run("ablation/taxonomy", *SMALL)
    text = page.with_suffix(".md").read_text()
    rows = re.findall(r"^\| (\w+\.\S+) \| (\S+) \| (\S+) \| (\S+) \|$", text, re.MULTILINE)
    assert rows == [
        ("taxonomy.dimensions.scenario", "set", "null", "set"),
        ("taxonomy.dimensions.complexity", "set", "set", "null"),
    ]
    assert all(f"drop={variant}" in text for variant in VARIANTS)
    assert "://" not in page.read_text()


def test_a_sweep_over_n_makes_the_tasks_once_and_goes_on_where_it_was_cut_short(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "work", WORDS, ENVIRONMENT)
    with quickstart_server() as server:
        words = [*place.sandbox, *live_overrides(server.openai_url), "generate.draws=4", "tracking=off"]
        place.run("quickstart", *words, "filter.n=2")
        (made,) = finished(place, "generate")
        before = (made / "draws.jsonl").stat().st_mtime_ns
        die_after(server, 4)
        quick = ("models.solver.max_retries=0", "executor.infra_retries=0")
        ended = place.endless("run", "quickstart", *words, *quick, "-m", "filter.n=2,3")
        assert ended.returncode == 1, ended.stdout
        assert ended.stdout.count("already done") == 4
        assert "side by side" not in ended.stdout
        assert "run the same command again" in ended.stdout
        server.faults = ()
        printed = place.run("quickstart", *words, "-m", "filter.n=2,3")
    assert printed.count("already done") == 5, "the first variant whole, and the second's tasks"
    (page,) = (place.folder / "outputs" / "runs").glob("sweep-*/compare.md")
    assert "| filter.n | 2 | 3 |" in page.read_text()
    assert finished(place, "generate") == [made]
    assert (made / "draws.jsonl").stat().st_mtime_ns == before
    assert len(finished(place, "filter")) == 2
    slots = Counter(row["slot"] for row in place.journal())
    assert set(slots.values()) == {1}, "what one variant paid for, another does not pay again"
    assert len(server.billed) == len(slots)


def die_after(server: Loopback, answers: int) -> None:
    """Let the server answer so many more calls and no others, until its faults are set anew."""
    alive = iter([Fault.NONE] * answers)
    healthy = server.fault_for
    server.faults = dying = Chance(0.0)

    def fault_for(raw: bytes) -> Fault:
        return next(alive, Fault.SERVER_ERROR) if server.faults is dying else healthy(raw)

    server.fault_for = fault_for  # type: ignore[method-assign]


def finished(place: Workplace, phase: str) -> list[Path]:
    return [path for path in (place.store / phase).iterdir() if path.is_dir() and path.suffix != ".partial"]
