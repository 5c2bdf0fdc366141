from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from faultline.bot.store.quotas import ModelSpending, Spent
from faultline.bot.store.tables import ModelSpendingRow
from tests.databases import store_engine

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    found = store_engine(database_url)
    yield found
    found.dispose()


def at(engine: Engine, now: datetime) -> ModelSpending:
    return ModelSpending(engine, lambda: now)


def test_what_was_taken_adds_up_for_the_day_and_for_each_channel(engine: Engine) -> None:
    spending = at(engine, NOON)
    assert spending.spent("C1") == (Spent(), Spent())
    assert spending.add("C1", 1000, 0.25) == (Spent(1000, 0.25), Spent(1000, 0.25))
    assert spending.add("C2", 500, 0.5) == (Spent(1500, 0.75), Spent(500, 0.5))
    assert spending.add("C1", 1, 0.0) == (Spent(1501, 0.75), Spent(1001, 0.25))
    assert spending.spent("C3") == (Spent(1501, 0.75), Spent())


def test_a_new_day_begins_at_nothing_and_old_days_are_forgotten(engine: Engine) -> None:
    at(engine, NOON).add("C1", 1000, 1.0)
    assert at(engine, NOON + timedelta(hours=13)).spent("C1") == (Spent(), Spent())
    at(engine, NOON + timedelta(days=40)).add("C1", 1, 0.0)
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(ModelSpendingRow)) == 1


def test_workers_that_count_at_once_lose_nothing(engine: Engine) -> None:
    spending = at(engine, NOON)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: spending.add(f"C{n % 2}", 10, 0.5), range(40)))
    assert spending.spent("C1") == (Spent(400, 20.0), Spent(200, 10.0))


def test_names_of_channels_are_hostile(engine: Engine) -> None:
    spending = at(engine, NOON)
    for channel in ("a\x00b", "\ud800", "x" * 10_000, "'; DROP TABLE model_spending; --"):
        assert spending.add(channel, 5, 0.0)[1].tokens == 5
        assert spending.spent(channel)[1].tokens == 5
