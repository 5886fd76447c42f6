"""What an agent's reply means, and how a command's result reads.

The paper's protocol with its bugs fixed: thoughts are removed *before* anything is parsed, a reply holds exactly one
action, and the observation carries the command's true exit code.
"""

import re
from dataclasses import dataclass

from runner.sandbox.base import ExecResult

CHARS_PER_TOKEN = 4
"""How text is measured before a provider has counted it. English and code run at 3.5 to 4.5."""

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_COMMAND = re.compile(r"<command>(.*?)</command>", re.DOTALL)
_DONE = re.compile(r"<action>\s*done\s*</action>")
_ANY_TAG = re.compile(r"</?(?:command|action)>")
_OBSERVATION = re.compile(
    r"(?P<notes>(?:[^\n]+\n)*?)(?:Exit code: -?\d+\n)?Working directory: (?P<cwd>.*?)\nOutput:\n(?P<output>.*)",
    re.DOTALL,
)
_NO_OUTPUT = "(no output)"


@dataclass(frozen=True)
class Command:
    """Run this."""

    text: str


@dataclass(frozen=True)
class Done:
    """The agent says that it has finished."""


@dataclass(frozen=True)
class Invalid:
    """The reply holds no single action."""

    reason: str


Action = Command | Done | Invalid


def parse_reply(reply: str) -> Action:
    """Read the one action of a reply; whatever else it holds is commentary."""
    text = strip_thoughts(reply)
    if text is None:
        return Invalid("the thoughts were opened with <think> but never closed")
    commands, dones = _COMMAND.findall(text), _DONE.findall(text)
    if len(commands) + len(dones) > 1:
        return Invalid(f"{len(commands) + len(dones)} actions in one reply, where exactly one is allowed")
    if dones:
        return Done()
    if commands:
        return _command(commands[0])
    if _ANY_TAG.search(text):
        return Invalid("an action tag that is not closed, or an action other than done")
    return Invalid("no <command> and no <action>done</action>")


def strip_thoughts(reply: str) -> str | None:
    """The reply without its ``<think>`` parts; None when a thought never ends.

    Chat templates of reasoning models open the thought themselves, so a reply may begin inside one.
    """
    opened, closed = reply.find("<think>"), reply.find("</think>")
    if closed >= 0 and (opened < 0 or closed < opened):
        reply = reply[closed + len("</think>") :]
    text = _THOUGHTS.sub("", reply)
    return None if "<think>" in text else text


def _command(text: str) -> Action:
    stripped = text.strip("\r\n")
    if not stripped.strip():
        return Invalid("an empty <command>")
    return Command(stripped)


def render_output(output: bytes, tokens: int) -> str:
    """A command's output as text of at most about ``tokens`` tokens: head, tail, and a line that says what was cut."""
    text = output.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    limit = tokens * CHARS_PER_TOKEN
    if len(text) <= limit:
        return text
    head, tail = text[: limit // 2], text[len(text) - (limit - limit // 2) :]
    cut = text[len(head) : len(text) - len(tail)]
    mark = f"[... {len(cut):,} characters, {cut.count(chr(10)):,} lines cut ...]"
    return f"{head}\n{mark}\n{tail}"


def status_lines(result: ExecResult, timeout: float) -> list[str]:
    """What the agent must know about a command beyond its output and exit code."""
    lines = []
    if result.refused:
        lines.append(f"The command was not run: {result.refused}")
    if result.timed_out:
        lines.append(f"The command ran longer than {timeout:g} seconds and was stopped.")
    if result.truncated:
        lines.append("The command wrote too much output and was stopped.")
    if result.restarted:
        lines.append("The shell was restarted: variables and functions are lost, files and the directory are kept.")
    return lines


@dataclass(frozen=True)
class Observation:
    """An observation's parts."""

    output: str
    cwd: str = ""
    notes: tuple[str, ...] = ()
    """``status_lines``."""


def read_observation(text: str) -> Observation:
    """The parts of an observation in the words of the default prompts; of any other, all of it is output."""
    found = _OBSERVATION.fullmatch(text.strip("\n"))
    if found is None:
        return Observation(text)
    output = "" if found["output"].strip() == _NO_OUTPUT else found["output"]
    return Observation(output, found["cwd"], tuple(found["notes"].splitlines()))
