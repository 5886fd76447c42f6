"""Ask, judge, feed back."""

from dataclasses import dataclass, field

import pytest

from runner.domain.errors import EngineError
from runner.llm.base import Completion, Finish, Message, Request, Usage
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Complaint, Reject, Stage, repair
from runner.phases.generate.reply import ReplyError

OPENING = (Message(role="system", content="s"), Message(role="user", content="u"))


@dataclass
class Scripted:
    """A client that answers from a list and remembers what it was asked."""

    answers: list[Completion]
    asked: list[Request] = field(default_factory=list)

    def complete(self, request):
        self.asked.append(request)
        return self.answers[len(self.asked) - 1]

    def close(self):
        pass


def says(*texts, finish=Finish.STOP):
    return Scripted([Completion(text=t, usage=Usage(input_tokens=10, output_tokens=1), finish=finish) for t in texts])


def run(client, judge, rounds=3):
    stage = Stage(client=client, slot="environment/000001", rounds=rounds, max_tokens=100, temperature=1.0, scope="x")
    return repair(stage, OPENING, judge)


def test_the_real_error_goes_back_and_the_second_answer_counts():
    client = says("bad", "good")
    result = run(
        client, lambda text: text if text == "good" else Complaint(Reason.BUILD_FAILED, "line 3: no such file")
    )
    assert (result.value, result.rounds, result.spend.calls) == ("good", 2, 2)
    assert [r.slot for r in client.asked] == ["environment/000001/0", "environment/000001/1"]
    assert [m.content for m in client.asked[1].messages] == ["s", "u", "bad", "line 3: no such file"]
    assert client.asked[1].head == client.asked[0].head


def test_it_gives_up_after_the_last_round_with_the_last_reason():
    reasons = iter([Reason.BUILD_FAILED, Reason.INITIAL_TEST_FAILED, Reason.BUILD_TIMEOUT])
    result = run(says("a", "b", "c"), lambda _: Complaint(next(reasons), "no"))
    assert (result.value, result.reason, result.rounds) == (None, Reason.BUILD_TIMEOUT, 3)


def test_a_rejection_ends_at_once():
    result = run(says("a", "b"), lambda _: Reject(Reason.LEAK, "the line"))
    assert (result.value, result.reason, result.detail, result.rounds) == (None, Reason.LEAK, "the line", 1)


@pytest.mark.parametrize(("finish", "reason"), [(Finish.STOP, Reason.UNPARSABLE), (Finish.LENGTH, Reason.TRUNCATED)])
def test_an_unreadable_reply_is_told_why(finish, reason):
    def judge(_):
        raise ReplyError("the reply lacks <setup>")

    client = says("a", "b", "c", finish=finish)
    assert run(client, judge).reason is reason
    assert "lacks <setup>" in client.asked[1].messages[-1].content


def test_a_refusal_is_not_argued_with():
    result = run(says("I will not.", finish=Finish.REFUSAL), lambda text: text)
    assert (result.reason, result.rounds) == (Reason.REFUSED, 1)


def test_a_conversation_over_the_models_context_is_given_up():
    result = run(says("", finish=Finish.CONTEXT), lambda text: text)
    assert (result.reason, result.rounds) == (Reason.TRUNCATED, 1)


def test_infrastructure_trouble_passes_through_and_uses_no_round():
    def judge(_):
        raise EngineError("daemon gone")

    with pytest.raises(EngineError):
        run(says("a"), judge)
