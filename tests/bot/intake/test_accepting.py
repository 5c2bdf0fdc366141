"""Alerts that wait for the store together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake import accepting
from faultline.bot.intake.accepting import MAX_TOGETHER, NotAccepted, store_accept, take
from faultline.bot.store.admission_state import IncidentBusy
from faultline.bot.store.store import Accepted, Arrival, Delivery, Store

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


def arrival(number: int, severity: str) -> Arrival:
    title = f"alert {number}"
    alert = Alert(
        source="pagerduty", title=title, started_at=NOW, service=f"s{number}", severity=severity
    )
    return Arrival(alert, Delivery("pagerduty", str(number)))


def stored_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Filled with the titles of alerts in the order in which they are written."""
    order: list[str] = []
    accept_all = store.accept_all

    def noted(arrivals: Sequence[Arrival]) -> list[Accepted]:
        order.extend(one.alert.title for one in arrivals)
        return accept_all(arrivals)

    monkeypatch.setattr(store, "accept_all", noted)
    return order


def test_an_urgent_alert_goes_ahead_of_those_that_wait(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = stored_order(store, monkeypatch)

    async def together() -> None:
        accept = store_accept(store)
        storm = [arrival(n, "P4") for n in range(3 * MAX_TOGETHER)]
        waiting = [take(accept, one, within_s=60) for one in [*storm, arrival(999, "P1")]]
        await asyncio.gather(*waiting)

    asyncio.run(together())
    assert order.index("alert 999") == 0
    assert order[1:] == [f"alert {n}" for n in range(3 * MAX_TOGETHER)]


def test_an_urgent_alert_takes_the_place_of_another_where_all_places_are_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "MAX_WAITING", 3)

    async def together() -> list[Accepted | BaseException]:
        accept = store_accept(store)
        alerts = [*(arrival(n, "P4") for n in range(4)), arrival(4, "P1")]
        waiting = [take(accept, one, within_s=30) for one in alerts]
        return await asyncio.gather(*waiting, return_exceptions=True)

    outcomes = asyncio.run(together())
    assert [isinstance(one, NotAccepted) for one in outcomes] == [False, False, True, True, False]


def test_alerts_whose_senders_gave_up_take_no_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accepting, "MAX_WAITING", 3)

    async def together() -> Accepted:
        accept = store_accept(store)
        waiting = [asyncio.create_task(accept(arrival(n, "P1"))) for n in range(3)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        return await accept(arrival(3, "P4"))

    assert asyncio.run(together()).outcome == "started"


def test_alerts_that_another_host_has_in_hand_take_no_other_with_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept_all = store.accept_all

    def busy(arrivals: Sequence[Arrival]) -> list[Accepted]:
        blocked = [n for n, one in enumerate(arrivals) if one.alert.title == "alert 1"]
        if blocked:
            raise IncidentBusy(blocked)
        return accept_all(arrivals)

    monkeypatch.setattr(store, "accept_all", busy)

    async def together() -> list[Accepted | BaseException]:
        accept = store_accept(store)
        waiting = [take(accept, arrival(n, "P2"), within_s=5) for n in range(3)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = asyncio.run(together())
    assert [isinstance(one, Accepted) for one in found] == [True, False, True]
    assert type(found[1]) is NotAccepted, "the alert is not at fault: it may be spooled"
    assert store.count() == 2
