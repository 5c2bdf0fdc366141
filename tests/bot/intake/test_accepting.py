"""Alerts that wait for the store together."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from analysis.vocabulary import Alert
from bot.intake.accepting import NotAccepted, store_accept, take
from bot.store.store import Accepted, Arrival, Delivery, Store

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def test_an_alert_that_cannot_be_stored_takes_no_other_with_it(store: Store) -> None:
    async def together() -> list[Accepted | BaseException]:
        accept = store_accept(store)
        arrivals = [
            Arrival(
                Alert(source="pagerduty", title=f"alert {d}", started_at=NOW, service=f"s{n}"),
                Delivery("pagerduty", d),
            )
            for n, d in enumerate(("one", "two \ud800", "three"))
        ]
        waiting = [take(accept, arrival, within_s=5) for arrival in arrivals]
        return await asyncio.gather(*waiting, return_exceptions=True)

    first, bad, last = asyncio.run(together())
    assert isinstance(bad, NotAccepted)
    assert [a.outcome for a in (first, last) if isinstance(a, Accepted)] == ["started", "started"]
    assert store.count() == 2
