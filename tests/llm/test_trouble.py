"""What a provider says about a request, word for word, and what a recipe's owner is told to change."""

import pytest

from runner.domain.errors import RecipeError
from runner.llm.base import Finish
from runner.llm.trouble import Endpoint, Failure, verdict

TO = Endpoint(role="solver", model="m", provider="vllm", address="http://h/v1", key_env=None, timeout=1.0)
CAP = "lower generate.max_tokens or agent.turn_tokens"


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("BadRequestError: max_tokens=9999 cannot be greater than max_model_len=max_total_tokens=512.", CAP),
        ("max_tokens is too large: 50000. This model supports at most 16384 completion tokens.", CAP),
        ("max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens for m", CAP),
        ("Unsupported parameter: use 'max_completion_tokens' instead", "check models.solver: reasoning=true"),
        ("temperature must be non-negative, got -1.0.", "check models.solver: name, temperature, reasoning"),
    ],
)
def test_a_refused_request_names_the_keys_to_change(said: str, advice: str) -> None:
    error = verdict(Failure(text=said, status=400), TO)
    assert isinstance(error, RecipeError)
    assert said in str(error)
    assert advice in str(error)


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 2048 tokens. However, you requested 20 output tokens and your prompt "
        "contains at least 2029 input tokens, for a total of at least 2049 tokens.",  # vLLM 0.29
        "context_length_exceeded: Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "the request exceeds the available context size",
    ],
)
def test_a_conversation_over_the_context_window_is_recognised(said: str) -> None:
    assert verdict(Failure(text=said, status=400), TO) is Finish.CONTEXT
