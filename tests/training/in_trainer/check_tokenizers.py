"""Turn markers and prompts with real tokenizers: byte-level BPE, as Qwen's and Llama's are, with their chat templates.

Run by the trainer's Python, see ``tests/training/test_in_trainer.py``. The real vocabularies cannot be had offline; a
small one made here splits text in the same way (special tokens first, then words with their leading space).
"""

import functools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openrlhf.datasets.prompts_dataset import preprocess_data
from support.templates import ENDS, SPECIAL
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from runner.agent.harness import PROMPTS, opening
from runner.domain.errors import RecipeError
from runner.llm.base import Message
from runner.prompts import PromptSet
from runner.schema import Agent
from runner.training.executor.chat import Chat

MESSAGES = opening(Agent(), "Count the lines of /home/user/a.txt.", PromptSet.open(PROMPTS, "default"))


@functools.cache
def tokenizer(name):
    template, end = ENDS[name]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=list(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    bpe.train_from_iterator([m.content for m in MESSAGES] * 3, trainer)
    bpe.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in ("<think>", "</think>")])
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token="<|begin_of_text|>")
    made.chat_template = template
    return made


@pytest.fixture(params=ENDS)
def real(request):
    return tokenizer(request.param)


def rendered(made, *more):
    conversation = [{"role": m.role, "content": m.content} for m in [*MESSAGES, *more]]
    return made.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)


def test_the_prompt_that_openrlhf_renders_from_our_dataset_is_the_agents(real):
    row = json.loads(json.dumps({"input": [{"role": m.role, "content": m.content} for m in MESSAGES], "label": "t"}))
    prompt, label = preprocess_data(row, None, "input", "label", real.apply_chat_template)
    assert label == "t"
    ids = Chat(real).prompt(prompt, MESSAGES)
    assert ids == real(prompt, add_special_tokens=False)["input_ids"]
    assert real.decode(ids) == prompt


def test_a_prompt_cut_to_its_tail_is_refused(real):
    with pytest.raises(RecipeError, match="not the agent's"):
        Chat(real).prompt(rendered(real)[50:], MESSAGES)


TEXT = st.text(alphabet=st.sampled_from("ab \n\t.é\N{SNOWMAN}<|>012"), max_size=40)


@pytest.mark.parametrize("name", ["TINY", "QWEN_25", "LLAMA_3", "ZEPHYR"])
@settings(max_examples=200, deadline=None)
@given(text=TEXT, reply=TEXT)
def test_prompt_reply_and_observation_are_the_tokens_of_the_whole_conversation(name, text, reply):
    """What is put together of ids is what the server of the filter makes of the text."""
    made = tokenizer(name)
    chat = Chat(made)
    reply = f"a{reply.strip()}."  # white space at its ends is the templates' affair
    before_end = " " if name == "ZEPHYR" else ""
    sampled = made.encode(reply + before_end + made.eos_token, add_special_tokens=False)
    assert sampled[-1] == chat.end == made.eos_token_id
    ids = [*chat.prompt(rendered(made), MESSAGES), *sampled, *chat.observation(text, ended=True)]
    more = [Message(role="assistant", content=reply), Message(role="user", content=text)]
    assert ids == made.encode(rendered(made, *more), add_special_tokens=False)
    closed = [*sampled[:-1], *chat.observation(text, ended=False)]
    assert closed == [*sampled, *chat.observation(text, ended=True)]


def test_many_threads_may_ask_at_once(real):
    from concurrent.futures import ThreadPoolExecutor

    chat = Chat(real)
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda n: chat.observation(f"{n % 7} lines", ended=True), range(400)))
    assert all(ids == chat.observation(f"{n % 7} lines", ended=True) for n, ids in enumerate(found))
