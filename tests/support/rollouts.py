"""Rollout workers for tests: tasks on disk, settings, and requests as OpenRLHF makes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.scripted import Reply, ScriptedEngine, params
from support.words import Words

from runner.agent.harness import PROMPTS, opening
from runner.domain.task import Environment, Limits, Task
from runner.prompts import PromptSet
from runner.schema import Agent, Executor, Sandbox
from runner.schema_training import Ppo
from runner.store.tasks import write_task
from runner.training.executor.settings import ExecutorSettings, Recipe
from runner.training.executor.worker import Worker

WORDS = Words()
DONE = Reply(text="<think>It is done.</think><action>done</action>")


def command(text: str) -> Reply:
    return Reply(text=f"<think>I try.</think><command>{text}</command>")


def a_task(id: str = "count") -> Task:
    """Write 3 to a file: passes for whoever does, in any sandbox."""
    return Task(
        id=id,
        instruction=f"Write the number of lines of /home/user/{id}.txt to /home/user/{id}.out.",
        environment=Environment(setup=f"printf 'a\\nb\\nc\\n' >/home/user/{id}.txt"),
        final_test=(
            "from pathlib import Path\n\n\n"
            f"def test_count():\n    assert Path('/home/user/{id}.out').read_text().strip() == '3'\n"
        ),
        limits=Limits(verifier_seconds=30.0),
    )


def solve(id: str = "count") -> Reply:
    return command(f"wc -l < {id}.txt > {id}.out")


def settings(
    folder: Path,
    tasks: Sequence[Task],
    *,
    sandbox: Sandbox,
    agent: Agent | None = None,
    live: int = 4,
    retries: int = 2,
    needs_done: bool = False,
) -> ExecutorSettings:
    """Settings of a worker, whose tasks are written to ``folder``."""
    for task in tasks:
        write_task(folder / "tasks" / task.id, task)
    ppo = Ppo(live_episodes=live, infra_retries=retries, reward_needs_done=needs_done)
    return ExecutorSettings(
        recipe=Recipe(agent=agent or Agent(), sandbox=sandbox, executor=Executor(backoff_seconds=0.05), ppo=ppo),
        tasks=folder / "tasks",
        episodes=folder / "episodes",
        engines=1,
        run_label="test",
        cache=folder / "cache",
    )


def prompt_of(task: Task, agent: Agent, words: Words = WORDS) -> str:
    """As OpenRLHF renders the dataset's messages."""
    messages = opening(agent, task.instruction, PromptSet.open(PROMPTS, agent.prompt))
    conversation = [{"role": m.role, "content": m.content} for m in messages]
    return words.apply_chat_template(conversation, add_generation_prompt=True)


async def rollout(worker: Worker, task: Task, engine: Any) -> dict[str, Any]:
    """One request, of which ``engine`` is a script or an engine."""
    if isinstance(engine, list):
        engine = ScriptedEngine(WORDS, engine)
    agent = worker.settings.recipe.agent
    prompt = prompt_of(task, agent)
    return await worker.execute(prompt, task.id, params(logprobs=1), agent.context_tokens, WORDS, engine)
