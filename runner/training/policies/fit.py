"""Which conversations fit a policy's context: ``python -m ...fit MODEL LIMIT SOURCE TARGET``.

OpenRLHF cuts longer ones without a word, and with them the end that a policy has to learn. Prints ``kept dropped``.
"""

import json
import sys
from pathlib import Path


def fit(model: str, limit: int, source: Path, target: Path) -> tuple[int, int]:
    """Copy the rows whose ``messages`` are at most ``limit`` tokens; returns how many were kept and dropped."""
    from transformers import AutoTokenizer  # type: ignore[import-not-found,unused-ignore]

    tokenizer = AutoTokenizer.from_pretrained(model)
    kept = dropped = 0
    with source.open(encoding="utf-8") as rows, target.open("w", encoding="utf-8") as file:
        for line in rows:
            ids = tokenizer.apply_chat_template(json.loads(line)["messages"], tokenize=True, return_dict=True)
            if len(ids["input_ids"]) <= limit:
                file.write(line)
                kept += 1
            else:
                dropped += 1
    return kept, dropped


if __name__ == "__main__":
    print(*fit(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])))
