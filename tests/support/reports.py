"""Made-up but plausible runs, reports and episodes for the tests of tracking."""

from pathlib import Path
from typing import Any

from runner.domain.episode import EndReason, Episode, Outcome, Turn
from runner.tracking.base import DatasetRef, PhaseReport, RunInfo

CONFIG: dict[str, Any] = {
    "name": "quickstart",
    "description": "Twelve draws, recorded replies, a real sandbox.",
    "seed": 0,
    "phases": ["generate", "filter", "dataset"],
    "filter": {"n": 4, "keep": ["pass_at_n > 0"], "early_stop": None},
    "models": {
        "solver": {"provider": "openai", "name": "o3", "api_key_env": "OPENAI_API_KEY", "temperature": None},
        "generator": {
            "provider": "vllm",
            "vllm": {"env": {"HF_TOKEN": "hf_plain_in_the_recipe"}, "args": ["--api-key", "sk-in-an-argument"]},
        },
    },
    "taxonomy": {
        "dimensions": {
            "category": {"values": {f"category {i}": 1.0 for i in range(62)}},
            "complexity": {"values": {"one command": 1.0, "2-3 commands": 2.0}},
        }
    },
    "prices": {"o3": {"input": 2.0, "output": 8.0}},
    "tracking": {"uri": "http://someone:hunter2@mlflow.example:5000"},
}


def run_info(folder: Path, **changes: Any) -> RunInfo:
    """A run whose folder and frozen recipe exist."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text("name: quickstart\nfilter:\n  n: 4\n")
    fields: dict[str, Any] = {
        "experiment": "quickstart",
        "name": "quickstart-4f2a91c0",
        "key": "4f2a91c0",
        "config": CONFIG,
        "recipe": recipe,
        "folder": folder,
        "tags": {"sandbox": "local"},
    }
    return RunInfo(**(fields | changes))


def episode(task: str = "000003", sample: int = 0, outcome: Outcome = Outcome.PASS) -> Episode:
    """Two commands and a "done"."""
    turns = (
        Turn(
            reply="<think>Look first.</think><command>ls /var/log/app</command>",
            command="ls /var/log/app",
            observation="exit code 0\napp.log\napp.log.1",
            exit_code=0,
            input_tokens=812,
            output_tokens=41,
            model_seconds=1.5,
            command_seconds=0.1,
        ),
        Turn(
            reply="<command>grep -c ERROR /var/log/app/app.log > /home/user/errors.txt</command>",
            command="grep -c ERROR /var/log/app/app.log > /home/user/errors.txt",
            observation="exit code 0",
            exit_code=0,
            input_tokens=901,
            output_tokens=38,
            model_seconds=1.2,
            command_seconds=0.2,
        ),
        Turn(reply="<action>done</action>", input_tokens=960, output_tokens=9, model_seconds=0.6),
    )
    return Episode(
        task_id=task,
        sample=sample,
        outcome=outcome,
        end=EndReason.INFRA if outcome is Outcome.INFRA else EndReason.DONE,
        turns=turns,
        prompt="You are at a terminal.\n\nCount the ERROR lines of /var/log/app/app.log into /home/user/errors.txt.",
        verdict={Outcome.PASS: "2 passed", Outcome.FAIL: "1 failed, 1 passed", Outcome.INFRA: "engine gone"}[outcome],
        seconds=4.0,
    )


def generate_report(folder: Path, **changes: Any) -> PhaseReport:
    """A finished generate phase with its attrition table, an artifact and a dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / "draws.jsonl"
    notes.write_text('{"draw": 0, "reason": "kept"}\n')
    fields: dict[str, Any] = {
        "phase": "generate",
        "fingerprint": "a1" * 32,
        "folder": folder,
        "metrics": {"generate/draws": 12.0, "generate/kept": 8.0, "generate/cost_dollars": 0.37},
        "tables": {"attrition": [{"reason": "kept", "draws": 8}, {"reason": "leak", "draws": 1}]},
        "artifacts": [notes],
        "datasets": [DatasetRef(name="tasks", digest="a1" * 32, source=folder, rows=8)],
    }
    return PhaseReport(**(fields | changes))


def filter_report(folder: Path, **changes: Any) -> PhaseReport:
    """A finished filter phase with three episodes."""
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {
        "phase": "filter",
        "fingerprint": "b2" * 32,
        "folder": folder,
        "metrics": {"filter/kept": 7.0, "filter/pass_at_1": 0.531, "filter/pass_at_4": 0.875},
        "episodes": [
            episode("000003", 0, Outcome.PASS),
            episode("000003", 1, Outcome.FAIL),
            episode("000004", 0, Outcome.INFRA),
        ],
    }
    return PhaseReport(**(fields | changes))
