"""An account of one's own, for a test that asks a model."""

from pathlib import Path
from typing import Any

from runner.llm.account import Account


def account(folder: Path, **keys: Any) -> Account:
    """Journal and ledger are in ``folder``."""
    made: dict[str, Any] = {"journal_root": folder / "journal", "ledger": folder / "ledger.jsonl", "recipes": folder}
    return Account(**{**made, **keys})
