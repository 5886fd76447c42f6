"""Both clients through their real SDKs against a real server: what is sent and read, and what each failure becomes."""

import io
import logging
import time
import traceback

import pytest
from support.loopback import HUGE, Call, Fault, Loopback, Reply
from support.models import KEY, ask, client_on

from runner import schema
from runner.domain.errors import EndlessError, MissingRequirement, ProviderError, RecipeError
from runner.llm.base import Finish, Message, Usage


@pytest.fixture(autouse=True)
def no_ambient_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_an_answer_comes_with_text_usage_model_and_time(api: str) -> None:
    reply = Reply(text="ls", input_tokens=100, output_tokens=7, cached_tokens=40, thoughts="hm " * 10)
    with Loopback(reply=lambda call: reply, latency=0.05) as server:
        client = client_on(server, api)
        done = client.complete(ask())
        client.close()
        client.close()
    assert done.text == "ls"
    assert done.usage == Usage(input_tokens=100, output_tokens=7, cached_tokens=40)
    assert done.finish is Finish.STOP
    assert done.model.startswith("tiny-2026")
    assert 0.05 <= done.seconds < 5
    assert not done.replayed


@pytest.mark.parametrize(
    ("api", "word", "finish"),
    [
        ("openai", "length", Finish.LENGTH),
        ("openai", "content_filter", Finish.REFUSAL),
        ("openai", "tool_calls", Finish.STOP),
        ("anthropic", "max_tokens", Finish.LENGTH),
        ("anthropic", "refusal", Finish.REFUSAL),
        ("anthropic", "model_context_window_exceeded", Finish.CONTEXT),
        ("anthropic", "stop_sequence", Finish.STOP),
    ],
)
def test_finish_reasons_are_mapped(api: str, word: str, finish: Finish) -> None:
    with Loopback(reply=lambda call: Reply(text="x", finish=word)) as server:
        client = client_on(server, api)
        assert client.complete(ask()).finish is finish
        client.close()


def _body_of(api: str, **model: object) -> Call:
    with Loopback() as server:
        client = client_on(server, api, **model)
        client.complete(ask(temperature=0.6))
        client.close()
        return server.calls[0]


def test_openai_gets_max_tokens_and_temperature() -> None:
    body = _body_of("openai", extra_body={"min_p": 0.1}).body
    assert body["max_tokens"] == 64
    assert body["temperature"] == 0.6
    assert body["min_p"] == 0.1
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert set(body) == {"model", "messages", "max_tokens", "temperature", "min_p"}


def test_a_reasoning_model_gets_its_own_parameters_and_no_temperature() -> None:
    body = _body_of("openai", reasoning=True, reasoning_effort="low", temperature=0.2).body
    assert set(body) == {"model", "messages", "max_completion_tokens", "reasoning_effort"}
    assert (body["max_completion_tokens"], body["reasoning_effort"]) == (64, "low")


def test_anthropic_gets_the_system_prompt_apart_and_no_temperature() -> None:
    body = _body_of("anthropic", temperature=0.2, extra_body={"thinking": {"type": "adaptive"}}).body
    assert body["system"] == "You are a shell."
    assert [m["role"] for m in body["messages"]] == ["user"]
    assert set(body) == {"model", "messages", "system", "max_tokens", "thinking"}


def test_an_empty_message_is_not_sent_to_anthropic_which_would_refuse_it() -> None:
    messages = (Message(role="user", content="go"), Message(role="assistant", content=" "))
    with Loopback() as server:
        client = client_on(server, "anthropic")
        client.complete(ask(messages=(*messages, Message(role="user", content="again"))))
        client.close()
        assert server.calls[0].messages[1] == ("assistant", "(empty)")


def test_the_models_own_temperature_is_the_default() -> None:
    with Loopback() as server:
        client = client_on(server, "openai", temperature=0.3)
        client.complete(ask())
        client.close()
        assert server.calls[0].body["temperature"] == 0.3


@pytest.mark.parametrize(
    "fault",
    [
        Fault.RATE_LIMIT,
        Fault.SERVER_ERROR,
        Fault.OVERLOADED,
        Fault.RESET,
        Fault.CUT,
        Fault.TRUNCATED,
        Fault.HTML,
        Fault.EMPTY_BODY,
        Fault.NO_CHOICES,
        Fault.NO_USAGE,
    ],
)
def test_a_passing_fault_is_retried(api: str, fault: Fault) -> None:
    with Loopback(faults=[fault]) as server:
        client = client_on(server, api)
        assert client.complete(ask(last="hello")).text == "echo: hello"
        client.close()
        assert len(server.calls) == 2
        assert len(server.billed) == 1


def test_a_time_out_is_retried(api: str) -> None:
    with Loopback(faults=[Fault.HANG]) as server:
        client = client_on(server, api, timeout_seconds=0.3)
        assert client.complete(ask()).text
        client.close()


def test_an_empty_reply_is_an_answer(api: str) -> None:
    with Loopback(faults=[Fault.EMPTY_REPLY]) as server:
        client = client_on(server, api)
        done = client.complete(ask())
        client.close()
    assert (done.text, done.finish) == ("", Finish.STOP)
    assert done.usage.output_tokens > 0


def test_a_huge_reply_arrives_whole(api: str) -> None:
    with Loopback(faults=[Fault.HUGE_REPLY]) as server:
        client = client_on(server, api)
        assert client.complete(ask()).text == HUGE
        client.close()


@pytest.mark.parametrize(("fault", "finish"), [(Fault.CONTEXT, Finish.CONTEXT), (Fault.REFUSED, Finish.REFUSAL)])
def test_context_overflow_and_content_filter_are_data(api: str, fault: Fault, finish: Finish) -> None:
    with Loopback(faults=[fault]) as server:
        client = client_on(server, api)
        done = client.complete(ask())
        client.close()
        assert len(server.calls) == 1
    assert (done.text, done.finish, done.usage) == ("", finish, Usage())


@pytest.mark.parametrize(("faults", "text", "finish"), [(1, "what fits", Finish.LENGTH), (2, "", Finish.CONTEXT)])
def test_a_prompt_that_leaves_vllm_less_room_than_the_cap_gets_the_room_that_is_left(
    faults: int, text: str, finish: Finish
) -> None:
    def reply(call: Call) -> Reply:
        return Reply(text="what fits", finish="length")

    with Loopback(faults=[Fault.CONTEXT] * faults, reply=reply) as server:
        client = client_on(server, "openai", provider=schema.Provider.vllm)
        done = client.complete(ask())
        client.close()
        assert ["max_tokens" in call.body for call in server.calls] == [True, False]
    assert (done.text, done.finish) == (text, finish)


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (Fault.UNAUTHORIZED, MissingRequirement, ["TEST_KEY", "401"]),
        (Fault.FORBIDDEN, MissingRequirement, ["TEST_KEY", "tiny", "403"]),
        (Fault.NO_CREDIT, MissingRequirement, ["no credit"]),
        (Fault.NOT_FOUND, RecipeError, ["tiny", "models.solver.name"]),
        (Fault.BAD_REQUEST, RecipeError, ["models.solver", "reasoning=true"]),
        (Fault.RATE_LIMIT, ProviderError, ["429", "models.solver.concurrency"]),
        (Fault.SERVER_ERROR, ProviderError, ["500", "something broke", "run again"]),
        (Fault.TOMORROW, ProviderError, ["429", "come back tomorrow"]),
        (Fault.RESET, ProviderError, ["cannot be reached"]),
        (Fault.TRUNCATED, ProviderError, ["no whole JSON", "2 times"]),
        (Fault.HTML, ProviderError, ["<html>", "base_url"]),
        (Fault.NO_CHOICES, ProviderError, ["without"]),
        (Fault.NO_USAGE, ProviderError, ["without usage"]),
    ],
)
def test_a_lasting_fault_says_who_what_and_how_to_go_on(
    api: str, fault: Fault, kind: type[EndlessError], words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with Loopback(faults=[fault] * 10) as server:
        client = client_on(server, api, max_retries=1)
        with pytest.raises(kind) as caught:
            client.complete(ask())
        client.close()
        where = server.url
    message = str(caught.value)
    for word in [*words, "models.solver", api, where]:
        assert word in message
    assert "\n" not in message
    assert time.monotonic() - began < 5
    shown = io.StringIO()
    traceback.print_exception(caught.value, file=shown)
    assert KEY not in message + shown.getvalue() + caplog.text + repr(client) + repr(vars(caught.value))
    assert caught.value.__context__ is None


def test_a_wrong_key_is_never_shown_even_when_the_server_shows_it(api: str) -> None:
    with Loopback(key="another") as server:
        client = client_on(server, api)
        with pytest.raises(MissingRequirement, match=r"Incorrect API key provided: \*\*\*"):
            client.complete(ask())
        client.close()


def test_a_time_out_that_lasts_names_the_limit(api: str) -> None:
    with Loopback(faults=[Fault.HANG] * 3) as server:
        client = client_on(server, api, timeout_seconds=0.2, max_retries=0)
        with pytest.raises(ProviderError, match=r"within 0\.2 s; raise models\.solver\.timeout_seconds"):
            client.complete(ask())
        client.close()


def test_a_server_that_is_not_there_is_a_provider_error(api: str) -> None:
    with Loopback() as server:
        client = client_on(server, api, max_retries=0)
    with pytest.raises(ProviderError, match="cannot be reached"):
        client.complete(ask())
    client.close()


def test_a_proxy_is_not_used_for_this_machine(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    with Loopback() as server:
        client = client_on(server, api, max_retries=0)
        assert client.complete(ask()).text
        client.close()


@pytest.mark.parametrize("bad", ["choices-are-text", "usage-is-a-list", "content-is-a-number", "a-list", "deep"])
def test_json_of_the_wrong_shape_is_garbage_not_a_crash(api: str, bad: str) -> None:
    def spoil(body: bytes) -> bytes:
        replies = {
            "choices-are-text": b'{"choices": ["x"], "content": ["x"], "usage": {}}',
            "usage-is-a-list": b'{"choices": [{"message": {"content": "x"}}], "content": [], "usage": []}',
            "content-is-a-number": b'{"choices": [{"message": {"content": 5}}], "content": 5, "usage": {}}',
            "a-list": b"[1, 2]",
            "deep": b"[" * 100_000 + b"]" * 100_000,
        }
        return replies[bad]

    with Loopback(spoil=spoil) as server:
        client = client_on(server, api, max_retries=0)
        with pytest.raises(ProviderError, match="1 times"):
            client.complete(ask())
        client.close()
