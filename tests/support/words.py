"""A tokenizer of words: small enough to count its tokens by eye, and with real chat templates.

A run of letters and digits is a token, so is every other character, and so is each special token. Text survives it, and
a text cut between tokens is cut between the same tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from support.templates import SPECIAL, TINY


@dataclass(frozen=True)
class Added:
    """As ``tokenizers.AddedToken``."""

    content: str
    special: bool = True


class Words:
    """See ``executor.chat.Tokenizer``."""

    def __init__(self, template: str = TINY, *, end: str = "<|im_end|>", today: str = "01 Dec 2025") -> None:
        self.chat_template = template
        self.today = today
        self._texts: list[str] = list(SPECIAL)
        self._ids = {text: id for id, text in enumerate(self._texts)}
        self.added_tokens_decoder = {id: Added(text) for id, text in enumerate(SPECIAL)}
        self.eos_token_id = self._ids[end]
        self._pattern = re.compile("|".join([*map(re.escape, SPECIAL), r"\w+", r"(?s:.)"]))

    def apply_chat_template(self, conversation: Any, *, tokenize: bool = False, add_generation_prompt: bool) -> str:
        assert not tokenize
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["strftime_now"] = lambda form: datetime.strptime(self.today, "%d %b %Y").strftime(form)
        environment.globals["raise_exception"] = _refuse
        return environment.from_string(self.chat_template).render(
            messages=conversation,
            add_generation_prompt=add_generation_prompt,
            bos_token="<|begin_of_text|>",
            eos_token=self._texts[self.eos_token_id],
        )

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        return [self._id(part) for part in self._pattern.findall(text)]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join(self._texts[id] for id in ids if not (skip_special_tokens and id < len(SPECIAL)))

    def _id(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = len(self._texts)
            self._texts.append(text)
        return self._ids[text]


def _refuse(reason: str) -> None:
    raise ValueError(reason)
