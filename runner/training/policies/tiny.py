"""A small random Llama, its tokenizer made from the recipe's own text: ``python -m ...tiny FOLDER SEED CONTEXT TEXT``.

About one million parameters: after a short SFT on recorded episodes it speaks the agent's protocol, and PPO teaches it
the rest, on two CPU cores. TEXT is a .jsonl file whose ``messages`` or ``input`` hold chat messages.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VOCABULARY = 1024
HIDDEN, LAYERS, HEADS, FEED_FORWARD = 128, 4, 4, 384
"""Head dimension 32: vLLM on a CPU takes 32 and 64, not 16."""
TAGS = ("<think>", "</think>", "<command>", "</command>", "<action>", "</action>")
"""One token each, so that the protocol is easy to learn."""
PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Nothing after the end of a turn: a turn ends exactly with the token that the policy samples."""


def build(folder: Path, seed: int, context: int, text: Path) -> None:
    """Write model and tokenizer in the Hugging Face format. ``context`` is the longest conversation in tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM  # type: ignore[import-not-found,unused-ignore]

    tokenizer = _tokenizer(text)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=FEED_FORWARD,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=context,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _tokenizer(text: Path) -> Any:
    from tokenizers import (  # type: ignore[import-not-found,unused-ignore]
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
        trainers,
    )
    from transformers import PreTrainedTokenizerFast

    bytes_to_text = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = bytes_to_text, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(TAGS),
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(text), trainer)
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)
    fast.chat_template = TEMPLATE
    return fast


def _texts(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            yield from (message["content"] for message in row.get("messages") or row["input"])


if __name__ == "__main__":
    build(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
