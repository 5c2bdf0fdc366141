"""Usual investigations rest between their steps while an urgent one is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from faultline.bot.investigation.giving_way import GivingWay
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.policy.priority import URGENT
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.store.tables import InvestigationRow
from tests.bot.investigation.test_steps import a_desk, accepted

LONG_S = 60.0


def test_nobody_rests_while_nothing_is_urgent() -> None:
    async def story() -> None:
        way = GivingWay(rest_s=LONG_S)
        way.end("usual")
        async with asyncio.timeout(LONG_S / 2):
            await way.rest("usual")

    asyncio.run(story())


def test_a_usual_one_rests_until_the_last_urgent_one_is_answered() -> None:
    async def story() -> None:
        way = GivingWay(rest_s=LONG_S, urgent_for_s=LONG_S)
        way.begin("first")
        way.begin("second")
        resting = asyncio.create_task(way.rest("usual"))
        way.end("first")
        await asyncio.sleep(0.05)
        assert not resting.done()
        way.end("second")
        async with asyncio.timeout(LONG_S / 2):
            await resting

    asyncio.run(story())


def test_an_urgent_one_waits_for_no_other() -> None:
    async def story() -> None:
        way = GivingWay(rest_s=LONG_S, urgent_for_s=LONG_S)
        way.begin("first")
        way.begin("second")
        async with asyncio.timeout(LONG_S / 2):
            await way.rest("first")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("rest_s", "urgent_for_s"),
    [
        pytest.param(0.05, LONG_S, id="its rest is over"),
        pytest.param(LONG_S, 0.05, id="the urgent one takes too long"),
    ],
)
def test_every_rest_has_an_end(rest_s: float, urgent_for_s: float) -> None:
    async def story() -> float:
        way = GivingWay(rest_s=rest_s, urgent_for_s=urgent_for_s)
        way.begin("urgent")
        began = time.monotonic()
        async with asyncio.timeout(LONG_S / 2):
            await way.rest("usual")
        return time.monotonic() - began

    assert asyncio.run(story()) >= 0.05


def test_urgent_ones_that_never_say_that_they_ended_are_forgotten() -> None:
    way = GivingWay(urgent_for_s=0)
    for number in range(100):
        way.begin(f"urgent {number}")
    assert len(way._urgent) == 1


@pytest.fixture
def context(tmp_path: Path, pool: ProcessPool) -> Iterator[WorkerContext]:
    context = a_desk(tmp_path, pool)
    yield context
    context.store.engine.dispose()


@pytest.mark.parametrize("opened_by_it", [True, False], ids=["its own", "of a lost worker"])
def test_steps_of_a_usual_investigation_let_those_of_an_urgent_one_pass(
    context: WorkerContext, opened_by_it: bool
) -> None:
    usual = accepted(context, "checkout")
    urgent = accepted(context, "payments")
    with context.store.engine.begin() as connection:
        change = update(InvestigationRow).where(InvestigationRow.id == urgent)
        connection.execute(change.values(priority=URGENT))

    async def story() -> list[str]:
        steps = InvestigationSteps(context)
        steps._giving_way = GivingWay(rest_s=LONG_S, urgent_for_s=LONG_S)
        opener = steps if opened_by_it else InvestigationSteps(context)
        opened = {usual: await opener.open(usual), urgent: await opener.open(urgent)}
        order: list[str] = []

        async def collect(investigation: str) -> None:
            await steps.collect(investigation, "recorded", opened[investigation])
            order.append(investigation)

        await collect(urgent)
        resting = asyncio.create_task(collect(usual))
        await collect(urgent)
        assert not resting.done()
        await steps.reply(urgent, "notebook")  # it fails, and the usual one goes on all the same
        async with asyncio.timeout(LONG_S / 2):
            await resting
        return order

    assert asyncio.run(story()) == [urgent, urgent, usual]
