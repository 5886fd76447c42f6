"""The filter's loop and the trainer's rollout, driven by the same script, end with the same episode, byte for byte."""

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import templates
from support.scripted import Clock, Reply, ScriptedBackend, ScriptedClient, ScriptedEngine, params
from support.words import Words

from runner.agent.harness import PROMPTS, Harness, opening
from runner.agent.loop import Call
from runner.domain.episode import EndReason
from runner.domain.plain import plain
from runner.domain.task import Environment, Task
from runner.prompts import PromptSet
from runner.rollout.attempt import attempt
from runner.rollout.bridge import Bridge
from runner.sandbox.outage import Outages
from runner.schema import Agent, Executor, Sandbox
from runner.schema_training import Ppo
from runner.training.executor.chat import Chat
from runner.training.executor.rollout import Request, Rollout
from runner.training.executor.settings import Recipe

PROMPT_SET = PromptSet.open(PROMPTS, "default")
TASK = Task(id="t", instruction="Count the lines.", environment=Environment(setup="true"), final_test="def test(): ...")
TIMINGS = {"seconds", "model_seconds", "command_seconds"}
AGENT = Agent(context_tokens=4000, turn_tokens=200)
END = "<|im_end|>"


def the_filters(words, agent, script):
    clock = Clock()
    client = ScriptedClient(words, script, agent.context_tokens, clock)
    call = Call(slot="solve/t/0", scope="", temperature=None)
    harness = Harness(agent, TASK.instruction, PROMPT_SET)
    return attempt(TASK, 0, harness, client, call, ScriptedBackend(clock=clock), now=clock).episode, client


def the_rollouts(words, agent, script, *, logprobs=0):
    clock = Clock()
    engine, backend, chat = ScriptedEngine(words, script, clock), ScriptedBackend(clock=clock), Chat(words)
    messages = opening(agent, TASK.instruction, PROMPT_SET)
    conversation = [{"role": m.role, "content": m.content} for m in messages]
    prompt = words.apply_chat_template(conversation, add_generation_prompt=True)

    async def play():
        bridge = Bridge()
        request = Request(
            prompt=prompt,
            label=TASK.id,
            params=params(logprobs=logprobs),
            max_length=agent.context_tokens,
            engine=engine,
            bridge=bridge,
        )
        rollout = Rollout(
            request=request,
            task=TASK,
            sample=0,
            recipe=Recipe(agent=agent, sandbox=Sandbox(), executor=Executor(), ppo=Ppo(infra_retries=0)),
            prompts=PROMPT_SET,
            chat=chat,
            prompt_ids=chat.prompt(prompt, messages),
            outages=Outages(0),
            open_backend=lambda: backend,
            now=clock,
        )
        return await asyncio.to_thread(rollout.play)

    return asyncio.run(play()), engine, backend


def written(episode):
    def bare(value):
        if isinstance(value, dict):
            return {name: bare(item) for name, item in value.items() if name not in TIMINGS}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return json.dumps(bare(plain(episode)))


def assert_equal(words, agent, script):
    episode, client = the_filters(words, agent, script)
    played, engine, backend = the_rollouts(words, agent, script)
    assert written(played.episode) == written(episode)
    assert engine.prompts == client.prompts
    assert backend.open == 0
    check_tokens(words, agent, played.response, engine)
    return episode


def check_tokens(words, agent, response, engine):
    ids, ranges = response["observation_tokens"], response["action_ranges"]
    assert [ids[start:end] for start, end in ranges] == [sampled for sampled in engine.sampled if sampled]
    assert len(ids) <= agent.context_tokens
    assert all(len(sampled) <= agent.turn_tokens for sampled in engine.sampled)
    mask = [any(start <= i < end for start, end in ranges) for i in range(len(ids))]
    assert [value != 0.0 for value in response["rollout_log_probs"]] == mask
    if ranges:
        assert ranges[-1][1] == len(ids), "a trajectory ends with what was sampled"
        assert ids[: ranges[0][0]] == engine.prompts[0]


def command(text, thought="I try."):
    return f"<think>{thought}</think><command>{text}</command>"


DONE = Reply(text="<think>It is done.</think><action>done</action>")
SLOW = json.dumps({"seconds": 20.0, "timed_out": True, "exit_code": None})
COMMANDS = st.sampled_from(
    [
        "ls",
        "",
        r'{"output": "\u003c|im_end|>\u003c|im_start|>assistant"}',  # control tokens in what a command prints
        "x" * 50,
        "word " * 300,
        json.dumps({"output": "   \n padded \n\n"}),
        json.dumps({"output": "many words " * 700}),
        json.dumps({"output": "", "exit_code": 3, "restarted": True}),
        json.dumps({"output": "flood", "truncated": True, "exit_code": None}),
        SLOW,
    ]
)
TEXTS = st.one_of(
    COMMANDS.map(command),
    COMMANDS.map(lambda text: f"<command>{text}</command>"),
    st.sampled_from(
        [
            DONE.text,
            "<action>done</action>",
            "",
            "no tag at all",
            "<think>never closed",
            command("ls") + command("ls"),
            "thoughts that the template opened</think><command>pwd</command>",
            command("ls", thought="and on " * 150),
            "<action>give up</action>",
            "\N{SNOWMAN} \N{PILE OF POO} é",
        ]
    ),
)
REPLIES = st.builds(Reply, text=TEXTS, seconds=st.sampled_from([0.0, 1.0, 40.0]))
AGENTS = st.builds(
    Agent,
    max_turns=st.integers(1, 6),
    turn_tokens=st.sampled_from([5, 40, 200, 1000]),
    context_tokens=st.one_of(st.integers(560, 900), st.just(4000)),
    episode_seconds=st.sampled_from([30.0, 300.0]),
    output_tokens=st.sampled_from([50, 1000]),
    max_invalid=st.integers(1, 3),
)


@pytest.mark.parametrize("template", ["TINY", "QWEN_25"])
@settings(max_examples=60, deadline=None)
@given(agent=AGENTS, script=st.lists(REPLIES, min_size=6, max_size=6))
def test_any_script_ends_in_the_same_episode_with_the_same_tokens(template, agent, script):
    text, end = templates.ENDS[template]
    assert_equal(Words(text, end=end), agent, script)


ENDINGS = {
    EndReason.DONE: ({}, [Reply(text=command("ls")), DONE]),
    EndReason.TURN_LIMIT: ({"max_turns": 2}, [Reply(text=command("ls")), Reply(text=command("pwd"))]),
    EndReason.CONTEXT_FULL: ({"context_tokens": 700}, [Reply(text=command("one word " * 60))] * 3),
    EndReason.TIME_LIMIT: ({"episode_seconds": 30.0}, [Reply(text=command(SLOW))] * 2),
    EndReason.INVALID_OUTPUT: ({"max_invalid": 2}, [Reply(text="what?"), Reply(text="<think>")]),
}


@pytest.mark.parametrize("end", ENDINGS, ids=str)
@pytest.mark.parametrize("template", ["TINY", "QWEN_25", "LLAMA_3"])
def test_every_way_to_end_is_the_same(template, end):
    changed, script = ENDINGS[end]
    text, stop = templates.ENDS[template]
    assert assert_equal(Words(text, end=stop), replace(AGENT, **changed), script).end is end


def test_what_was_sampled_stays_where_a_template_would_cut_thoughts_out_of_history():
    words = Words(templates.QWEN_3)
    script = [Reply(text=command("ls", thought="Where am I?")), DONE]
    played, engine, _ = the_rollouts(words, AGENT, script)
    assert "Where am I?" in words.decode(engine.prompts[1])
    check_tokens(words, AGENT, played.response, engine)


def test_two_turns_by_hand():
    """Every id, every range and every probability of a whole episode, against the text they stand for."""
    words = Words(templates.QWEN_25)
    script = [Reply(text="<think>a</think><command>ls</command>"), Reply(text="<action>done</action>")]
    played, _, _ = the_rollouts(words, AGENT, script)
    response = played.response
    observation = "Exit code: 0\nWorking directory: /home/user\nOutput:\nls"
    segments = [
        (response["prompt"], False),
        (f"<think>a</think><command>ls</command>{END}", True),
        (f"\n<|im_start|>user\n{observation}{END}\n<|im_start|>assistant\n", False),
        (f"<action>done</action>{END}", True),
    ]
    ids, mask = [], []
    for text, sampled in segments:
        tokens = words.encode(text)
        ids += tokens
        mask += [sampled] * len(tokens)
    assert response["observation_tokens"] == ids
    starts = [len(words.encode("".join(text for text, _ in segments[:n]))) for n in range(5)]
    assert response["action_ranges"] == [(starts[1], starts[2]), (starts[3], starts[4])]
    assert response["rollout_log_probs"] == [-0.25 if sampled else 0.0 for sampled in mask]
    assert not response["truncated"]


def test_control_tokens_that_a_policy_samples_are_tokens_and_not_text():
    """The filter's server leaves them out of the text as well; here they stay what the policy is trained on."""
    words = Words(templates.TINY)
    played, engine, _ = the_rollouts(words, AGENT, [Reply(text="<|im_start|>user <action>done</action>")])
    assert played.episode.turns[0].reply == "user <action>done</action>"
    assert words.decode(engine.sampled[0]).startswith("<|im_start|>user")
    check_tokens(words, AGENT, played.response, engine)


def test_a_reply_cut_at_its_cap_is_closed_by_an_observation_token():
    words = Words(templates.QWEN_25)
    agent = replace(AGENT, turn_tokens=4)
    played, engine, _ = the_rollouts(words, agent, [Reply(text="one two three four"), *[Reply(text="a b c")] * 2])
    (start, end), *_ = played.response["action_ranges"]
    ids = played.response["observation_tokens"]
    assert words.decode(ids[start:end]) == "one two "
    assert ids[end] == words.eos_token_id
    assert words.decode(engine.prompts[1]).count(END) == words.decode(engine.prompts[0]).count(END) + 2
    assert "token limit" in played.episode.turns[0].invalid


@pytest.mark.parametrize("spare", [0, -1])
def test_the_context_may_be_full_to_the_last_token_and_no_more(spare):
    """The last reply fits exactly; with one token less in the context it loses its end-of-turn token."""
    words = Words(templates.TINY)
    script = [Reply(text=command("ls")), Reply(text=f"<think>{'on ' * 70}</think><action>done</action>")]
    roomy, _, _ = the_rollouts(words, AGENT, script)
    size = len(roomy.response["observation_tokens"])
    played, engine, _ = the_rollouts(words, replace(AGENT, context_tokens=size + spare), script)
    assert engine.caps[1] == len(words.encode(script[1].text)) + 1 + spare
    assert len(played.response["observation_tokens"]) == size + spare
    assert played.episode.end is EndReason.DONE
    assert played.response["truncated"] is (spare < 0)


def test_the_cap_of_a_turn_is_exact():
    words = Words(templates.TINY)
    size = len(words.encode(DONE.text)) + 1
    for cap, cut in ((size, False), (size - 1, True)):
        agent = replace(AGENT, turn_tokens=cap, max_invalid=1)
        played, engine, _ = the_rollouts(words, agent, [DONE])
        assert engine.caps == [cap]
        assert played.response["truncated"] is cut
