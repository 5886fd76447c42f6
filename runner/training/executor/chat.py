"""The turn markers of a chat template, found once by rendering two small conversations.

A rollout never renders its history again: that would cut thoughts out of earlier turns (Qwen 3), put another date into
the system message (Llama 3), and turn sampled text into other tokens than were sampled. So what stands between two
replies of the assistant is taken from the template here, as text around an observation::

    ...reply<|im_end|>\\n<|im_start|>user\\n{observation}<|im_end|>\\n<|im_start|>assistant\\n
            ^ the end of the turn                                                        ^ where the next reply begins

The end of a turn is the token that the policy samples to stop. A reply that was cut has none: then it is part of what
follows, which the policy did not write.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from runner.domain.errors import RecipeError
from runner.llm.base import Message

_MARKS = ("zq0system0qz", "zq1user1qz", "zq2reply2qz", "zq3observation3qz")
_PADDED = "\n zq3observation3qz \n"
_DATE = re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4}|\d{4}-\d\d-\d\d")


class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that a rollout needs."""

    eos_token_id: int | None
    added_tokens_decoder: Mapping[int, Any]
    """Id -> a token with ``content`` and ``special``."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> Any:
        """With ``tokenize=False`` the rendered text."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """Token ids."""


@dataclass(frozen=True, kw_only=True)
class Markers:
    """A template's texts. ``{head}system{middle}user{after}reply{before}observation{after}reply...``"""

    head: str
    middle: str
    before: str
    """From the end of a reply to the observation; begins with the text of ``end``."""
    after: str
    """From the observation to the next reply: the generation prompt."""
    end: int
    """The special token that ends a turn."""
    strips: bool
    """The template strips white space off messages."""

    def content(self, text: str) -> str:
        """A message as the template writes it."""
        return text.strip() if self.strips else text


class Chat:
    """A tokenizer with its markers. Safe to use from many threads (fast tokenizers are not)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises RecipeError for a template that cannot be continued turn by turn."""
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self.markers = find_markers(tokenizer)

    @property
    def end(self) -> int:
        """The token that ends a turn."""
        return self.markers.end

    def prompt(self, rendered: str, opening: Sequence[Message]) -> list[int]:
        """The ids of a prompt that the trainer rendered. Raises RecipeError unless it is exactly the agent's opening
        messages, whole: a policy trained on another prompt than it is filtered and evaluated with learns the wrong
        thing.
        """
        system, task = (self.markers.content(_printable(message.content)) for message in opening)
        body = f"{system}{self.markers.middle}{task}{self.markers.after}"
        head = rendered.removesuffix(body)
        if head == rendered or _DATE.sub("", head) != _DATE.sub("", self.markers.head):
            raise RecipeError(
                f"the trainer's prompt is not the agent's (cut, of another recipe, or without the chat template): "
                f"{rendered[:80]!r}...{rendered[-80:]!r}"
            )
        return self._encode(rendered)

    def observation(self, text: str, *, ended: bool) -> list[int]:
        """The ids from a reply to the next one; ``ended``: the reply holds its own end-of-turn token."""
        ids = self._encode(f"{self.markers.before}{self.markers.content(text)}{self.markers.after}")
        if ids[0] != self.end:
            raise RecipeError(f"the tokenizer reads {self.markers.before!r} as {ids[:4]}, not as {self.end} and more")
        return ids[1:] if ended else ids

    def _encode(self, text: str) -> list[int]:
        with self._lock:
            return list(self._tokenizer.encode(text, add_special_tokens=False))


def _printable(text: str) -> str:
    """As the dataset's export writes text: without lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8")


def find_markers(tokenizer: Tokenizer) -> Markers:
    """Raises RecipeError for a template that cannot be continued turn by turn."""
    system, user, reply, observation = _MARKS
    first = _render(tokenizer, [("system", system), ("user", user)])
    later = _render(tokenizer, [("system", system), ("user", user), ("assistant", reply), ("user", observation)])
    head, middle, generation = _cut(first, system, user)
    *_, closing, after = _cut(later, system, user, reply, observation)
    if after != generation:
        raise RecipeError(f"the chat template begins a later reply with {after!r}, but the first with {generation!r}")
    end, before = _end_of_turn(tokenizer, closing)
    return Markers(head=head, middle=middle, before=before, after=after, end=end, strips=_strips(tokenizer))


def _render(tokenizer: Tokenizer, messages: Sequence[tuple[str, str]]) -> str:
    conversation = [{"role": role, "content": content} for role, content in messages]
    try:
        return str(tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # Jinja's, or the template's own raise_exception
        roles = ", ".join(role for role, _ in messages)
        raise RecipeError(f"the chat template cannot render {roles}: {error}") from error


def _cut(text: str, *marks: str) -> list[str]:
    """What stands before, between and after the marks. Raises RecipeError unless each is there once, in order."""
    parts = re.split("|".join(marks), text)
    if re.findall("|".join(marks), text) != list(marks):
        raise RecipeError("the chat template does not write each message once, in order")
    return parts


def _end_of_turn(tokenizer: Tokenizer, closing: str) -> tuple[int, str]:
    """The first special token after a reply, and the text from it on."""
    special = {token.content: id for id, token in tokenizer.added_tokens_decoder.items() if token.special}
    found = [(closing.find(text), -len(text), text) for text in special if text in closing]
    if not found or closing[: min(found)[0]].strip():
        raise RecipeError(f"the chat template does not end a reply with a special token, but with {closing!r}")
    place, _, text = min(found)
    return special[text], closing[place:]


def _strips(tokenizer: Tokenizer) -> bool:
    """Whether white space around a message is lost."""
    system, user, reply, _ = _MARKS
    text = _render(tokenizer, [("system", system), ("user", user), ("assistant", reply), ("user", _PADDED)])
    return _PADDED not in text
