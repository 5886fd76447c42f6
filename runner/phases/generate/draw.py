"""One taxonomy draw through all its gates. Pure: everything it needs comes in, everything it learnt goes out."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.domain.plain import fingerprint
from runner.domain.task import Limits, Task
from runner.llm.base import Client, Message
from runner.phases.base import Spend
from runner.phases.generate import describe, environment, final
from runner.phases.generate.opening import opening
from runner.phases.generate.reasons import Reason
from runner.phases.generate.repair import Result, Stage, repair
from runner.prompts import PromptSet
from runner.sandbox.base import Backend
from runner.schema import Config


@dataclass(frozen=True, kw_only=True)
class Draw:
    """An index of the taxonomy's stream and the labels it gave."""

    index: int
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class DrawRecord:
    """How a draw ended: one line of ``draws.jsonl``."""

    draw: int
    labels: Mapping[str, str]
    reason: Reason
    detail: str = ""
    task_id: str = ""
    rounds: Mapping[str, int]
    """Stage -> replies it took."""
    spend: Spend
    seconds: float

    @classmethod
    def from_plain(cls, row: Mapping[str, Any]) -> "DrawRecord":
        return cls(**{**row, "reason": Reason(row["reason"]), "spend": Spend.from_plain(row["spend"])})


@dataclass(frozen=True, kw_only=True)
class Maker:
    """Makes one task out of one draw."""

    config: Config
    client: Client
    backend: Backend
    prompts: PromptSet
    scope: str
    """What a recorded answer depends on beyond the request: the phase's own settings."""

    def make(self, draw: Draw) -> tuple[DrawRecord, Task | None]:
        """Run the gates. Raises InfraError (the draw is to be tried again), UserError, BudgetExceeded."""
        began = time.monotonic()
        ended: dict[str, Result[Any]] = {}
        task = self._gates(draw, ended)
        last = list(ended.values())[-1]
        record = DrawRecord(
            draw=draw.index,
            labels=draw.labels,
            reason=Reason.KEPT if task else last.reason,
            detail="" if task else last.detail[-2000:],
            task_id=task.id if task else "",
            rounds={name: result.rounds for name, result in ended.items()},
            spend=sum((result.spend for result in ended.values()), Spend()),
            seconds=round(time.monotonic() - began, 3),
        )
        return record, task

    def _gates(self, draw: Draw, ended: dict[str, Result[Any]]) -> Task | None:
        generate = self.config.generate
        described = ended["describe"] = repair(
            self._stage(draw, "describe", generate.temperature),
            self._opening(
                "describe", dimensions=describe.described(self.config.taxonomy, draw.labels), oracle=generate.oracle
            ),
            lambda reply: describe.judge(reply, oracle=generate.oracle),
        )
        if described.value is None:
            return None
        built = ended["environment"] = repair(
            self._stage(draw, "environment", generate.temperature),
            self._opening("environment", instruction=described.value.instruction, truth=described.value.truth),
            environment.Judge(config=self.config, backend=self.backend, prompts=self.prompts),
        )
        if built.value is None:
            return None
        checked = ended["final"] = repair(
            self._stage(draw, "final", generate.test_temperature),
            self._opening(
                "final",
                instruction=described.value.instruction,
                truth=described.value.truth,
                setup=built.value.environment.setup,
                start=built.value.environment.start,
                keep_ports=built.value.keep_ports,
            ),
            final.Judge(
                config=self.config,
                backend=self.backend,
                prompts=self.prompts,
                built=built.value,
                solution=described.value.solution,
            ),
        )
        if checked.value is None:
            self.backend.remove_image(built.value.image)
            return None
        return _task(self.config, draw, described.value, built.value, checked.value)

    def _opening(self, stage: str, **values: Any) -> tuple[Message, ...]:
        return opening(self.config, self.prompts, stage, **values)

    def _stage(self, draw: Draw, name: str, temperature: float | None) -> Stage:
        generate = self.config.generate
        return Stage(
            client=self.client,
            slot=f"{name}/{draw.index:06d}",
            rounds=generate.rounds,
            max_tokens=generate.max_tokens,
            temperature=temperature,
            scope=self.scope,
        )


def _task(
    config: Config, draw: Draw, described: describe.Description, built: environment.Built, checked: final.Checked
) -> Task:
    content = (described, built.environment, built.initial_test, checked, *built.keep_ports)
    return Task(
        id=f"{draw.index:06d}-{fingerprint(*content, digits=8)}",
        instruction=described.instruction,
        environment=built.environment,
        final_test=checked.final_test,
        initial_test=built.initial_test,
        keep_ports=built.keep_ports,
        truth=described.truth,
        solution=checked.solution,
        labels=draw.labels,
        limits=Limits(
            build_seconds=config.sandbox.build_seconds,
            verifier_seconds=config.sandbox.verifier_seconds,
            agent_seconds=config.agent.episode_seconds,
        ),
        draw=draw.index,
        metadata={
            "seed": config.seed,
            "generator": config.models.generator.name or config.models.generator.provider.name,
        },
    )
