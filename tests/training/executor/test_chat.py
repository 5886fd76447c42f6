"""Turn markers from chat templates, and prompts that must be the agent's own."""

import pytest
from support import templates
from support.words import Words

from runner.agent.harness import PROMPTS, opening
from runner.domain.errors import RecipeError
from runner.llm.base import Message
from runner.prompts import PromptSet
from runner.schema import Agent
from runner.training.executor.chat import Chat, find_markers

SYSTEM_AND_TASK = [Message(role="system", content="Be brief."), Message(role="user", content="Count the lines.")]


def rendered(tokenizer, *more, messages=SYSTEM_AND_TASK):
    conversation = [{"role": m.role, "content": m.content} for m in messages]
    conversation += [{"role": role, "content": content} for role, content in more]
    return tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)


@pytest.fixture(params=templates.ENDS, ids=str)
def words(request):
    template, end = templates.ENDS[request.param]
    return Words(template, end=end)


def test_qwens_markers_are_read_off_its_template():
    markers = find_markers(Words(templates.QWEN_25))
    assert markers.before == "<|im_end|>\n<|im_start|>user\n"
    assert markers.after == "<|im_end|>\n<|im_start|>assistant\n"
    assert markers.head == "<|im_start|>system\n"
    assert markers.middle == "<|im_end|>\n<|im_start|>user\n"
    assert not markers.strips


def test_llamas_headers_and_its_stripping_are_read_off_its_template():
    markers = find_markers(Words(templates.LLAMA_3, end="<|eot_id|>"))
    assert markers.before == "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
    assert markers.after == "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    assert "Today Date: 01 Dec 2025" in markers.head
    assert markers.strips


def test_a_generation_prompt_that_opens_a_thought_is_repeated_each_turn():
    assert find_markers(Words(templates.QWEN_3_WITHOUT_THINKING)).after.endswith("assistant\n<think>\n\n</think>\n\n")
    assert find_markers(Words(templates.DEEPSEEK_R1, end="<|end_of_sentence|>")).after == "<|Assistant|><think>\n"


def test_what_a_template_adds_before_the_end_of_a_turn_is_not_forced_on_the_policy():
    markers = find_markers(Words(templates.ZEPHYR, end="</s>"))
    assert markers.before == "</s>\n<|user|>\n"


def test_a_prompt_and_an_observation_are_the_templates_own_rendering(words):
    chat = Chat(words)
    prompt = chat.prompt(rendered(words), SYSTEM_AND_TASK)
    assert words.decode(prompt) == rendered(words)
    whole = rendered(words, ("assistant", "I look."), ("user", "3 a.txt"))
    observed = words.decode(chat.observation("3 a.txt", ended=False))
    assert whole.endswith(observed)
    assert chat.observation("3 a.txt", ended=True) == chat.observation("3 a.txt", ended=False)[1:]
    assert chat.observation("3 a.txt", ended=False)[0] == chat.end == words.eos_token_id


def test_white_space_around_an_observation_is_what_the_template_makes_of_it(words):
    text = "\n  3 a.txt \n"
    whole = rendered(words, ("assistant", "I look."), ("user", text))
    assert whole.endswith(words.decode(Chat(words).observation(text, ended=False)))


def test_a_prompt_of_another_day_is_the_same_prompt():
    chat = Chat(Words(templates.LLAMA_3, end="<|eot_id|>", today="01 Dec 2025"))
    yesterday = rendered(Words(templates.LLAMA_3, end="<|eot_id|>", today="30 Nov 2025"))
    assert "30 Nov 2025" in yesterday
    assert chat.prompt(yesterday, SYSTEM_AND_TASK)


def test_a_prompt_that_is_cut_or_of_another_task_is_refused(words):
    chat, whole = Chat(words), rendered(words)
    other = rendered(words, messages=[SYSTEM_AND_TASK[0], Message(role="user", content="Count the words.")])
    for wrong in (whole[20:], whole[:-5], other, "Count the lines.", ""):
        with pytest.raises(RecipeError, match="not the agent's"):
            chat.prompt(wrong, SYSTEM_AND_TASK)


def test_the_agents_real_opening_is_accepted(words):
    messages = opening(Agent(), "Count <b>lines</b> of /home/user/a.txt.  ", PromptSet.open(PROMPTS, "default"))
    chat = Chat(words)
    assert chat.prompt(rendered(words, messages=messages), messages)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (templates.LATER_REPLIES_BEGIN_OTHERWISE, "begins a later reply with"),
        (templates.NO_END_OF_TURN, "does not end a reply with a special token"),
        (templates.NO_SYSTEM, "System role not supported"),
        ("{{ messages[0]['content'] }}", "does not write each message once"),
    ],
)
def test_a_template_that_cannot_be_continued_is_refused_with_the_reason(template, reason):
    with pytest.raises(RecipeError, match=reason):
        Chat(Words(template))
