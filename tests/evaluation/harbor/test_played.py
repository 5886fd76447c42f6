"""An episode on an environment that runs one command at a time, without Harbor: what is played is written down."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pytest
from support.accounts import account
from support.loopback import Loopback

from runner.domain.episode import EndReason, Outcome
from runner.domain.errors import EngineError, ProviderError
from runner.evaluation.harbor.played import Played, play_episode
from runner.evaluation.harbor.room import Room
from runner.evaluation.harbor.sandbox import HarborSandbox
from runner.evaluation.harbor.settings import AgentSettings
from runner.rollout.bridge import Bridge
from runner.schema import Agent, Model, Price, Provider
from runner.store.episodes import episode_of

DONE = "<think>So.</think><action>done</action>"


@dataclass(frozen=True)
class Executed:
    stdout: str | None
    stderr: str | None
    return_code: int


@dataclass
class Machine:
    """This machine as an environment of Harbor's. ``broken`` says so, as an engine does that has lost a container."""

    home: Path
    broken: bool = False
    users: list[str | int | None] = field(default_factory=list)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> Executed:
        self.users.append(user)
        if self.broken:
            return Executed(None, "Error response from daemon: no such container", 1)
        words = ["bash", "-c", command]
        told = {**os.environ, "HOME": str(self.home), **(env or {})}
        run = lambda: subprocess.run(  # noqa: E731
            words, env=told, cwd=self.home, capture_output=True, text=True, timeout=timeout_sec, check=False
        )
        done = await asyncio.to_thread(run)
        return Executed(done.stdout, done.stderr, done.returncode)


@contextlib.contextmanager
def room(folder: Path, url: str) -> Iterator[Room]:
    """The room of a job in Harbor's process."""
    model = Model(provider=Provider.openai, name="m", base_url=f"{url}/v1", max_retries=0)
    paid = account(folder, prices={"m": Price(input=1.0, output=1.0)})
    with contextlib.closing(Room(AgentSettings(agent=Agent(), model=model, account=paid), folder)) as made:
        yield made


def test_the_shell_starts_where_the_environment_does_with_quiet_tools(tmp_path: Path) -> None:
    machine = Machine(tmp_path)

    async def main() -> bytes:
        bridge = Bridge()

        def use() -> bytes:
            sandbox = HarborSandbox(machine, bridge, output_bytes=1000, base=str(tmp_path))
            said = sandbox.run("pwd; echo $HOME $PAGER $TERM; exit", timeout=10).output
            sandbox._shell.close()
            return said

        return await asyncio.to_thread(use)

    assert asyncio.run(main()).decode().split() == [str(tmp_path), str(tmp_path), "cat", "dumb"]
    assert set(machine.users) == {None, "root"}


def test_an_episode_is_written_with_its_turns_and_costs(tmp_path: Path) -> None:
    async def main(played: Played) -> None:
        bridge = Bridge()
        await asyncio.to_thread(lambda: play_episode(played, Machine(tmp_path), bridge))

    with Loopback(reply=lambda call: DONE) as server, room(tmp_path, server.url) as made:
        played = Played(made, "Do nothing.", trial="task__1")
        asyncio.run(main(played))
        played.write(tmp_path / "episode.json")
    episode = episode_of(json.loads((tmp_path / "episode.json").read_text()))
    assert (episode.task_id, episode.outcome, episode.end) == ("task__1", Outcome.INFRA, EndReason.DONE)
    assert [turn.reply for turn in episode.turns] == [DONE]
    (bill,) = server.billed
    assert played.cost == Decimal(bill.input_tokens + bill.output_tokens) / 1_000_000


def test_trouble_of_engine_and_provider_is_raised_and_no_end_of_the_agents(tmp_path: Path) -> None:
    async def main(played: Played, machine: Machine) -> None:
        bridge = Bridge()
        await asyncio.to_thread(lambda: play_episode(played, machine, bridge))

    with Loopback(reply=lambda call: "") as server, room(tmp_path, server.url) as made:
        played = Played(made, "Do nothing.", trial="a")
        with pytest.raises(EngineError, match="no such container"):
            asyncio.run(main(played, Machine(tmp_path, broken=True)))
        assert played.end is EndReason.INFRA
    with room(tmp_path, server.url) as made:
        played = Played(made, "Do nothing.", trial="b")
        with pytest.raises(ProviderError):
            asyncio.run(main(played, Machine(tmp_path)))
        assert played.end is EndReason.INFRA
