"""A run that makes nothing ends well, says so in one sentence, and says where to look."""

from pathlib import Path

import pytest
from support.agreeable import ENVIRONMENT, WORDS
from support.endless import Workplace, live_overrides
from support.loopback import Loopback

EVERY_EXPORT = "dataset.export=[harbor,openrlhf,hf]"


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "work", WORDS, ENVIRONMENT)


def test_a_model_that_only_babbles(workplace: Workplace) -> None:
    with Loopback() as server:
        words = [*live_overrides(server.openai_url), "generate.draws=3", EVERY_EXPORT]
        printed = workplace.run("quickstart", *words)
        again = workplace.run("quickstart", *words)
    for text in (printed, again):
        assert "No draw became a task, so there is nothing to train on." in text
        assert str(workplace.results().generate / "records.jsonl") in text
        assert "pass@" not in text
        assert "show run" in text
        assert "arning" not in text
    assert {reason for reason, _, _ in workplace.results().draws().values()} == {"unparsable"}
    assert workplace.results().split() == {"train": [], "dev": [], "refused": []}
    assert "No draw became a task" in workplace.endless("show", "run").stdout
    export = workplace.endless("tasks", "export", "--format", "hf", "--to", "out")
    assert export.returncode == 2, export.stdout
    assert "is empty; `endless show run quickstart-" in export.stdout


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ('filter.keep=["passes > 99"]', "The filter kept no task, so there is nothing to train on: see filter.keep"),
        ("dataset.max_prompt_tokens=10", "Every kept task was refused, so there is nothing to train on"),
    ],
)
def test_a_filter_that_keeps_nothing_and_a_dataset_that_takes_nothing(
    workplace: Workplace, override: str, words: str
) -> None:
    printed = workplace.run("quickstart", override, EVERY_EXPORT)
    assert words in printed
    assert "pass@4" in printed
    assert workplace.results().split()["train"] == []
