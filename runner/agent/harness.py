"""One episode as a state machine without input or output.

Feed it a model's reply and it says which command to run; feed it the command's result and it says what to ask next, or
that the episode ended and why. The synchronous loop of the filter, OpenRLHF's async executor and Harbor's async agent
are thin drivers around it, so the same replies give the same transcript everywhere.

::

    start ──> Ask ──reply──> Run ──result──> Ask ... ──> End
                └──unparsable reply──> Ask (a nudge; costs a turn)
"""

from dataclasses import dataclass, replace
from pathlib import Path

from runner.agent.protocol import (
    CHARS_PER_TOKEN,
    Command,
    Done,
    Invalid,
    parse_reply,
    render_output,
    status_lines,
)
from runner.domain.episode import EndReason, Turn
from runner.llm.base import Completion, Finish, Message
from runner.prompts import PromptSet
from runner.sandbox.base import ExecResult
from runner.schema import Agent

PROMPTS = Path(__file__).parent / "prompts"

SMALLEST_REPLY = 64
"""Tokens: with less room than this a reply cannot hold a thought and a command, so the context counts as full."""

CWD_TOKENS = 500
"""A folder's name may be four thousand characters long."""
MESSAGE_OVERHEAD = 8
"""Tokens a chat template adds around one message (measured on the Llama 3 and Qwen templates: 4 to 7)."""


@dataclass(frozen=True)
class Ask:
    """Call the model."""

    messages: tuple[Message, ...]
    max_tokens: int


@dataclass(frozen=True)
class Run:
    """Run a command in the agent's shell."""

    command: str
    timeout: float


@dataclass(frozen=True)
class End:
    """The episode is over; grade it."""

    reason: EndReason


class Harness:
    """The state of one episode. ``elapsed`` arguments are seconds since the episode began."""

    def __init__(self, settings: Agent, instruction: str, prompts: PromptSet) -> None:
        self._settings = settings
        self._prompts = prompts
        self._messages = opening(settings, instruction, prompts)
        self._used = sum(_estimate(m.content) for m in self._messages)
        self._invalid_in_a_row = 0
        self._pending: Completion | None = None
        self.turns: list[Turn] = []

    @property
    def prompt(self) -> str:
        """The system and the first user message, as sent."""
        return "\n\n".join(m.content for m in self._messages[:2])

    def start(self) -> Ask | End:
        """The first thing to do. Ends at once when the prompt alone fills the context."""
        return self._ask(elapsed=0.0)

    def on_reply(self, completion: Completion, elapsed: float) -> Ask | Run | End:
        """Take the model's answer."""
        if completion.drift is not None:
            self._rewrite_last(completion.drift)
        self._messages.append(Message(role="assistant", content=completion.text))
        self._used = _context_after(completion, self._messages)
        if completion.finish is Finish.CONTEXT:
            self.turns.append(_turn(completion, invalid="the conversation no longer fits the model's context window"))
            return End(EndReason.CONTEXT_FULL)
        action = parse_reply(completion.text)
        if isinstance(action, Invalid):
            return self._on_invalid(completion, _why_invalid(action, completion), elapsed)
        self._invalid_in_a_row = 0
        if isinstance(action, Done):
            self.turns.append(_turn(completion))
            return End(EndReason.DONE)
        return self._on_command(completion, action, elapsed)

    def on_result(self, result: ExecResult, elapsed: float) -> Ask | End:
        """Take the result of the command that was asked for."""
        completion, self._pending = self._pending, None
        assert completion is not None, "a result without a command"
        action = parse_reply(completion.text)
        assert isinstance(action, Command)
        observation = self._observe(result)
        self.turns.append(
            _turn(
                completion,
                command=action.text,
                observation=observation,
                exit_code=result.exit_code,
                timed_out=result.timed_out,
                command_seconds=result.seconds,
            )
        )
        return self._tell(observation, elapsed)

    def _rewrite_last(self, seen: str) -> None:
        """After a crash commands ran again and a result may differ (a date, a pid): keep what the model really saw."""
        self._messages[-1] = Message(role="user", content=seen)
        if self.turns:
            self.turns[-1] = replace(self.turns[-1], observation=seen)

    def _on_command(self, completion: Completion, action: Command, elapsed: float) -> Run | End:
        left = self._settings.episode_seconds - elapsed
        if left <= 0:
            self.turns.append(_turn(completion, command=action.text))
            return End(EndReason.TIME_LIMIT)
        self._pending = completion
        return Run(action.text, min(self._settings.command_seconds, left))

    def _on_invalid(self, completion: Completion, reason: str, elapsed: float) -> Ask | End:
        self._invalid_in_a_row += 1
        nudge = self._prompts.render("invalid", reason=reason)
        self.turns.append(_turn(completion, invalid=reason, observation=nudge))
        if self._invalid_in_a_row >= self._settings.max_invalid:
            return End(EndReason.INVALID_OUTPUT)
        return self._tell(nudge, elapsed)

    def _observe(self, result: ExecResult) -> str:
        return self._prompts.render(
            "observation",
            exit_code=result.exit_code,
            cwd=render_output(result.cwd.encode("utf-8", "surrogateescape"), CWD_TOKENS),
            output=render_output(result.output, self._settings.output_tokens).rstrip("\n"),
            status=status_lines(result, self._settings.command_seconds),
        )

    def _tell(self, text: str, elapsed: float) -> Ask | End:
        self._messages.append(Message(role="user", content=text))
        self._used += _estimate(text)
        return self._ask(elapsed)

    def _ask(self, elapsed: float) -> Ask | End:
        if len(self.turns) >= self._settings.max_turns:
            return End(EndReason.TURN_LIMIT)
        if elapsed >= self._settings.episode_seconds:
            return End(EndReason.TIME_LIMIT)
        room = self._settings.context_tokens - self._used
        if room < SMALLEST_REPLY:
            return End(EndReason.CONTEXT_FULL)
        return Ask(tuple(self._messages), min(self._settings.turn_tokens, room))


def opening(settings: Agent, instruction: str, prompts: PromptSet) -> list[Message]:
    """The system and the first user message of every episode on a task; also the prompt of the training data."""
    system = prompts.render(
        "system",
        command_seconds=f"{settings.command_seconds:g}",
        max_turns=settings.max_turns,
        context_tokens=settings.context_tokens,
    )
    task = prompts.render("task", instruction=instruction)
    return [Message(role="system", content=system), Message(role="user", content=task)]


def _estimate(text: str) -> int:
    return len(text) // CHARS_PER_TOKEN + MESSAGE_OVERHEAD


def _context_after(completion: Completion, messages: list[Message]) -> int:
    """Tokens the conversation holds after a reply: the provider's figures, or an estimate when it gave none.

    Hidden reasoning is billed as output but does not stay in the conversation, so a reply counts for no more than
    its visible text could be (two characters a token).
    """
    usage = completion.usage
    if usage.input_tokens == 0:
        return sum(_estimate(m.content) for m in messages)
    return usage.input_tokens + min(usage.output_tokens, len(completion.text) // 2 + MESSAGE_OVERHEAD)


def _why_invalid(action: Invalid, completion: Completion) -> str:
    if completion.finish is Finish.LENGTH:
        return f"{action.reason} (the reply was cut at its token limit)"
    if completion.finish is Finish.REFUSAL:
        return "the model refused to answer"
    return action.reason


def _turn(
    completion: Completion,
    *,
    command: str | None = None,
    observation: str = "",
    exit_code: int | None = None,
    timed_out: bool = False,
    invalid: str = "",
    command_seconds: float = 0.0,
) -> Turn:
    return Turn(
        reply=completion.text,
        command=command,
        observation=observation,
        exit_code=exit_code,
        timed_out=timed_out,
        invalid=invalid,
        input_tokens=completion.usage.input_tokens,
        output_tokens=completion.usage.output_tokens,
        cached_tokens=completion.usage.cached_tokens,
        model_seconds=completion.seconds,
        command_seconds=command_seconds,
    )
