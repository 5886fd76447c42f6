"""Lets the loopback server play a recording: it works out which slot a request stands in from the prompts alone.

    labels = [draw(config.taxonomy, config.seed, i) for i in range(config.generate.draws)]
    with Loopback(reply=RecordedReplies(folder, labels)) as server: ...

The samples of a task ask the same first question, so they get the recorded samples in turn; each recorded episode is
played once. With ``spread=False`` every sample gets the first recorded one, whatever is asked twice or in which order:
for runs that are killed and resumed.
"""

import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.loopback import Call
from support.loopback import Reply as Answer

from runner.llm.recording import Reply, draw_of, order, read_file

_STAGES = {
    "describe": "Write one task.",
    "environment": "Make the environment of this task.",
    "final": "Write the test that decides whether this task is solved.",
}
_INSTRUCTION = re.compile(r"<instruction>\s*(.*?)\s*</instruction>", re.DOTALL)


class RecordedReplies:
    """A ``reply`` function for ``Loopback``. Thread-safe."""

    def __init__(self, folder: Path, labels: Sequence[Mapping[str, str]], *, spread: bool = True) -> None:
        self._replies: dict[str, Reply] = {}
        for path in sorted(folder.glob("*.yaml")):
            self._replies.update(read_file(path))
        self._labels = labels
        self._spread = spread
        self._lock = threading.Lock()
        self._used: Counter[str] = Counter()
        self._instructions = [
            (match[1], draw_of(slot))
            for slot, reply in self._replies.items()
            if slot.startswith("describe/") and (match := _INSTRUCTION.search(reply.text))
        ]

    def __call__(self, call: Call) -> Answer:
        stage, draw = self._place(call)
        said = [text for role, text in call.messages if role == "assistant"]
        slot = self._sample(draw, said) if stage == "solve" else f"{stage}/{draw}/{len(said)}"
        reply = self._replies[slot]
        usage = reply.usage
        return Answer(
            text=reply.text,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            finish=reply.finish.value if call.api == "openai" else None,
        )

    def _place(self, call: Call) -> tuple[str, str]:
        asked = next(text for role, text in call.messages if role == "user")
        stage = next((name for name, opening in _STAGES.items() if asked.startswith(opening)), "solve")
        if stage == "describe":
            draws = [i for i, labels in enumerate(self._labels) if all(value in asked for value in labels.values())]
            assert len(draws) == 1, f"draws {draws} fit the labels of {asked!r}"
            return stage, f"{draws[0]:06d}"
        found = [(len(text), draw) for text, draw in self._instructions if text in asked]
        assert found, f"no recorded instruction is in {asked!r}"
        return stage, max(found)[1]

    def _sample(self, draw: str, said: Sequence[str]) -> str:
        """The next reply of a recorded episode that has gone the same way so far."""
        turn = len(said)
        samples = {s.split("/")[2] for s in self._replies if s.startswith(f"solve/{draw}/")}
        slots = [
            f"solve/{draw}/{sample}/{turn}"
            for sample in sorted(samples, key=order)
            if f"solve/{draw}/{sample}/{turn}" in self._replies and self._went(draw, sample) [:turn] == list(said)
        ]  # fmt: skip
        assert slots, f"no recorded episode of draw {draw} goes on after {said!r}"
        with self._lock:
            slot = min(slots, key=lambda s: self._used[s]) if self._spread else slots[0]
            self._used[slot] += 1
        return slot

    def _went(self, draw: str, sample: str) -> list[str]:
        texts = []
        while (slot := f"solve/{draw}/{sample}/{len(texts)}") in self._replies:
            texts.append(self._replies[slot].text)
        return texts
