"""A language model small enough for any CPU: ``python tiny_model.py FOLDER [CONTEXT]`` writes a random one.

It answers at once and in gibberish, which is all that a test of serving or of training needs. Its tokenizer is real
(byte-level BPE, so any text survives it) and has a chat template. Run it with the interpreter that vLLM is installed
in: that one has transformers and torch, which this project's own environment need not have.
"""

import sys
from pathlib import Path
from typing import Any

CONTEXT_TOKENS = 16384
_VOCABULARY = 512
_HEADS, _HEAD_DIM = 4, 32  # vLLM's CPU kernels refuse a head_dim of 16
_LAYERS = 2
_SPREAD = 0.2  # of the random weights: wide enough that two tokens in a row differ
_START, _END, _PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_TAGS = ("<think>", "</think>", "<command>", "</command>", "<action>", "</action>")
_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def build(folder: Path, *, context_tokens: int = CONTEXT_TOKENS, seed: int = 0) -> None:
    """Write a tokenizer and a Llama with random weights (about 0.5 million, 1 MB). Equal seeds give equal files."""
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    _model(tokenizer, context_tokens, seed).save_pretrained(folder)


def _tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY - len(_TAGS),
        special_tokens=[_PAD, _START, _END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(Path(__file__).read_text(encoding="utf-8").splitlines(), trainer)
    bpe.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in _TAGS])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=_END, pad_token=_PAD)
    tokenizer.chat_template = _TEMPLATE
    return tokenizer


def _model(tokenizer: Any, context_tokens: int, seed: int) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=_HEADS * _HEAD_DIM,
        intermediate_size=3 * _HEADS * _HEAD_DIM,
        num_hidden_layers=_LAYERS,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        max_position_embeddings=context_tokens,
        initializer_range=_SPREAD,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


if __name__ == "__main__":
    build(Path(sys.argv[1]), context_tokens=int(sys.argv[2]) if len(sys.argv) > 2 else CONTEXT_TOKENS)
