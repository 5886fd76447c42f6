"""Values that have the right type and cannot work."""

import re

import pytest

from runner.compose import compose
from runner.compose.validate import EXPORTS
from runner.domain.errors import RecipeError
from runner.phases.dataset.export import FORMATS

CASES = [
    ("generate.rounds=0", "generate.rounds is 0, but must be more than 0"),
    ("filter.n=0", "filter.n is 0"),
    ("sandbox.concurrency=-1", "sandbox.concurrency is -1"),
    ("models.solver.concurrency=0", "models.solver.concurrency is 0"),
    ("executor.workers=0", "executor.workers is 0"),
    ("executor.infra_share=1.5", "executor.infra_share is 1.5, but is a share between 0 and 1"),
    ("dataset.max_dev_share=-0.1", "dataset.max_dev_share is -0.1"),
    ("filter.early_stop=4", "must be at least 1 and less than filter.n"),
    ("filter={early_stop: 2, keep: ['pass_rate > 0.5']}", "filter.early_stop cannot serve the predicate"),
    ("filter.keep=['pass_at_m > 0']", "did you mean pass_at_n?"),
    ("filter.keep=['pass_at_9 > 0']", "filter.n = 4"),
    ("filter.keep=['solved']", "cannot read 'solved'"),
    ("phases=[generat]", "there is no phase 'generat'; did you mean generate?"),
    ("phases=[filter]", "filter needs generate before it"),
    ("phases=[filter,generate]", "must be generate, filter, each once and in this order"),
    ("phases=[]", "phases is empty"),
    ("agent.turn_tokens=16384", "must be less than agent.context_tokens"),
    ("dataset.export=[harbr]", "'harbr' is not one of harbor, openrlhf, hf; did you mean harbor?"),
    ("models.solver.replay=recordings/quikstart", "did you mean recordings/quickstart"),
    ("models.solver.replay=null", "provider replay needs a folder of recordings"),
    ("model=compatible", "models.generator.name is empty"),
    ("models.solver.base_url=localhost:8000", "must start with http"),
    ("models.solver.reasoning_effort=hihg", "did you mean high or xhigh?"),
    ("models.solver.temperature=3", "must be between 0 and 2"),
    ("sandbox.backend=dockr", "did you mean docker?"),
    ("sandbox.build_env=['A=b']", "NAMES of environment variables"),
    ("sandbox.root=etc", "must be an absolute path"),
    ("agent.prompt=/no/such", "there is no folder '/no/such'"),
    ("generate.decontaminate=[/no/such]", "there is no folder '/no/such'"),
    ("budget.dollars=-1", "budget.dollars is -1"),
    ("+prices.m={input: -1}", "prices.m"),
    ("name=''", "name is empty"),
    ("taxonomy.dimensions.complexity.values={2-3 commands: -1}", "a weight is 0 or a positive number"),
    ("taxonomy.dimensions.complexity.fixed=''", "complexity.fixed is empty"),
]


@pytest.mark.parametrize(("override", "message"), CASES)
def test_a_value_that_cannot_work_is_refused_by_key(override, message):
    with pytest.raises(RecipeError) as caught:
        compose("quickstart", [override])
    assert message in str(caught.value)
    assert str(caught.value).startswith("recipe quickstart: ")


@pytest.mark.parametrize(
    "override",
    [
        "phases=[generate]",
        "filter.early_stop=2",
        "sandbox.backend=my.module:Backend",
        "filter.keep=['pass_rate >= 0.25', 'pass_at_1 < 1']",
        "dataset.dev_tasks=0",
        "budget.dollars=0",
    ],
)
def test_a_value_that_works_is_taken(override):
    compose("quickstart", [override])


def test_the_export_formats_are_those_of_the_dataset_phase():
    assert set(EXPORTS) == set(FORMATS)


SECRETS = [
    "sk-ant-api03-abcdefghijklmnop",
    "sk-proj-abcdefghijklmnop",
    "hf_abcdefghijklmnopqrstuvwx",
    "Bearer abcdefghijklmnop12",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("key", ["models.solver.api_key_env", "+models.solver.extra_body.headers.x", "description"])
def test_a_secret_on_the_command_line_is_refused_and_never_repeated(secret, key):
    with pytest.raises(RecipeError, match="NAME") as caught:
        compose("quickstart", [f"{key}='{secret}'"])
    assert secret[3:] not in str(caught.value)


def test_a_secret_in_a_file_is_refused_with_its_key(write):
    path = write("name: own\nmodels: {solver: {extra_body: {headers: [a, 'sk-abcdefghijklmnopqrst']}}}\n")
    with pytest.raises(RecipeError, match=r"models\.solver\.extra_body\.headers\[1\] looks like a secret") as caught:
        compose(path)
    assert "abcdefgh" not in str(caught.value)


def test_a_password_in_an_address_is_refused(write):
    with pytest.raises(RecipeError, match=r"tracking\.uri looks like a secret"):
        compose(write("name: own\ntracking: {uri: 'https://me:hunter2@mlflow.example.org'}\n"))


def test_words_that_only_begin_like_a_key_are_no_secrets():
    assert compose("quickstart", ["description='ask-me-about-sk-learn'"]).description == "ask-me-about-sk-learn"


def test_a_variables_name_must_be_one():
    with pytest.raises(RecipeError, match="api_key_env holds something that is not a variable's name"):
        compose("quickstart", ["models.solver.api_key_env='not a name'"])


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("eval.dev.samples=0", "eval.dev.samples is 0, but must be at least 1"),
        ("eval.confidence=95", "eval.confidence is 95.0, but must be between 0 and 1"),
        ("eval.dev.policies=[base,pop]", "'pop' is not one of base, sft, ppo; did you mean ppo?"),
        ("+eval.dev.models={sft: {provider: openai, name: m}}", "'sft' is the recipe's own; give the model another"),
        ("+eval.dev.models={a/b: {provider: openai, name: m}}", "becomes a folder's name"),
        ("+eval.dev.models={big: {provider: openai}}", "eval.dev.models.big.name is empty"),
        ("eval.terminalbench.attempts=0", "eval.terminalbench.attempts is 0"),
        ("eval.terminalbench.path=/no/such/tasks", "there is no folder '/no/such/tasks'"),
        ("eval.terminalbench.harnesses=[]", "eval.terminalbench.harnesses is empty"),
    ],
)
def test_an_evaluation_that_cannot_work_is_refused(override: str, said: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(said)):
        compose("quickstart", ["eval=paper", override])
