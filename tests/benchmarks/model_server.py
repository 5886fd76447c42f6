"""The benchmark's model, in a process of its own: a loopback server that answers everything after a fixed time.

``python model_server.py LATENCY`` (with ``tests`` on the Python path) prints its address, serves until its standard
input ends, and then prints what it saw as JSON: [stage, when the call came] for each call, in seconds of the
monotonic clock that all processes share, and how many calls it had at most at once.
"""

import itertools
import json
import re
import sys
import time

import tiny_tasks
from support.loopback import Call, Loopback

STAGES = {
    "Write one task.": "describe",
    "Make the environment of this task.": "environment",
    "Write the test that decides whether this task is solved.": "final",
}
"""How the generator's prompts begin; anything else is an episode's."""


class Model:
    """Numbers the tasks in the order they are asked for, and knows them again by the ticket in the prompt."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []
        self._numbers = itertools.count()

    def __call__(self, call: Call) -> str:
        came = time.monotonic()
        asked = next(text for role, text in call.messages if role == "user")
        stage = next((name for opening, name in STAGES.items() if asked.startswith(opening)), "solve")
        self.calls.append((stage, came))
        if stage == "describe":
            return tiny_tasks.describe(next(self._numbers))
        ticket = re.search(r"This is ticket (\d+)\.", asked)
        assert ticket, f"no ticket in {asked!r}"
        number, turn = int(ticket[1]), sum(role == "assistant" for role, _ in call.messages)
        if stage == "solve":
            return tiny_tasks.solve(number, turn)
        return tiny_tasks.environment(number) if stage == "environment" else tiny_tasks.final(number)


def main() -> None:
    model = Model()
    with Loopback(reply=model, latency=float(sys.argv[1])) as server:
        print(server.openai_url, flush=True)
        sys.stdin.read()
        print(json.dumps({"calls": model.calls, "most_at_once": server.most_at_once}))


if __name__ == "__main__":
    main()
