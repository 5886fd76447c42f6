"""Work on an event loop, waited for in a thread, until nobody waits any more."""

import asyncio
import contextvars
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from runner.domain.errors import InfraError
from runner.rollout.bridge import Abandoned, Bridge

SETTING: contextvars.ContextVar[str] = contextvars.ContextVar("SETTING", default="none")


async def value() -> str:
    await asyncio.sleep(0)
    return SETTING.get()


async def failing() -> None:
    raise OSError("no engine")


async def forever(ended: list[bool]) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        ended.append(True)


def test_work_runs_in_the_context_in_which_the_bridge_was_made() -> None:
    async def main() -> str:
        SETTING.set("harbor's")
        bridge = Bridge()
        return await asyncio.to_thread(lambda: bridge.wait_for(value()))

    assert asyncio.run(main()) == "harbor's"


def test_what_work_raises_is_raised_in_the_thread() -> None:
    async def main() -> None:
        bridge = Bridge()
        await asyncio.to_thread(lambda: bridge.wait_for(failing()))

    with pytest.raises(OSError, match="no engine"):
        asyncio.run(main())


def test_a_stopped_bridge_ends_the_wait_in_hand_and_refuses_the_next() -> None:
    ended: list[bool] = []

    async def main() -> float:
        bridge = Bridge()
        waiting = asyncio.create_task(asyncio.to_thread(_abandoned, bridge, forever(ended)))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        bridge.stop()
        await waiting
        await asyncio.to_thread(_abandoned, bridge, value())
        return time.monotonic() - began

    assert asyncio.run(main()) < 5
    assert ended == [True]


def test_work_that_others_cancel_is_infrastructure_trouble() -> None:
    async def main() -> None:
        bridge = Bridge()
        waiting = asyncio.create_task(asyncio.to_thread(lambda: bridge.wait_for(forever([]))))
        await asyncio.sleep(0.1)
        for task in asyncio.all_tasks() - {waiting, asyncio.current_task()}:
            task.cancel()
        await waiting

    with pytest.raises(InfraError, match="was cancelled"):
        asyncio.run(main())


def _abandoned(bridge: Bridge, work: Coroutine[Any, Any, Any]) -> None:
    with pytest.raises(Abandoned):
        bridge.wait_for(work)
