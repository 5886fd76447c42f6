"""The loopback server can play the quickstart: every recorded reply is found from the prompt alone."""

from collections import Counter
from pathlib import Path

from support.loopback import Loopback
from support.models import ask, client_on
from support.recorded import RecordedReplies

from runner.llm.base import Message

TEXT = """
- slot: describe/000000/0
  reply: no tags
- slot: describe/000000/1
  reply: <instruction>Count a.</instruction>
- slot: environment/000000/0
  reply: the environment
- slot: solve/000000/0/0
  reply: ls
- slot: solve/000000/0/1
  reply: done
- slot: solve/000000/1/0
  reply: ls
- slot: solve/000000/1/1
  reply: wc
- slot: solve/000000/2/0
  reply: pwd
"""


def test_every_slot_is_found_and_every_episode_played_once(api: str, tmp_path: Path) -> None:
    (tmp_path / "000000.yaml").write_text(TEXT)
    replies = RecordedReplies(tmp_path, [{"category": "logs"}, {"category": "git"}])
    with Loopback(reply=replies) as server:
        client = client_on(server, api)

        def say(*texts: str) -> str:
            roles = ["user", "assistant"] * len(texts)
            messages = tuple(Message(role=role, content=t) for role, t in zip(roles, texts, strict=False))  # type: ignore[arg-type]
            return client.complete(ask(messages=messages)).text

        opening = "Write one task.\nCategory: logs"
        assert say(opening) == "no tags"
        assert say(opening, "no tags", "again").startswith("<instruction>")
        assert say("Make the environment of this task.\nCount a.\n") == "the environment"
        assert Counter(say("Count a.") for _ in range(3)) == {"ls": 2, "pwd": 1}
        assert {say("Count a.", "ls", "seen") for _ in range(2)} == {"done", "wc"}
        client.close()
