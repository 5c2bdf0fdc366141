"""The list of investigations: filters, and pages that stay put while new investigations arrive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine

from faultline.analysis.case.earlier import EarlierInvestigation
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.listing import MOST_COUNTED, Labels, Listing, ListingCursor, ListingFilter
from faultline.bot.store.memory import Memory
from faultline.bot.store.store import Store
from faultline.bot.store.suppressed_alerts import Mutes
from tests.databases import store_engine

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = store_engine(database_url)
    yield engine
    engine.dispose()


def accept(store: Store, number: int, **about: object) -> str:
    alert = Alert.model_validate(
        {
            "source": "datadog",
            "title": f"alert {number}",
            "started_at": NOW,
            "labels": {"fingerprint": str(number)},
        }
        | about
    )
    given = store.accept(alert, now=NOW - timedelta(minutes=number)).investigation_id
    assert given is not None
    return given


def answer(store: Store, id_: str, verdict: str, confidence: float) -> None:
    store.finish(id_, "done", verdict=verdict, confidence=confidence, headline="said")


def test_each_filter_keeps_what_it_names_and_all_must_hold(engine: Engine) -> None:
    store, listing, labels = Store(engine), Listing(engine), Labels(engine)
    cart = accept(store, 1, service="cart")
    bank = accept(store, 2, service="bank", source="pagerduty")
    other = accept(store, 3, service="cart", source="pagerduty")
    answer(store, cart, "cause_found", 0.9)
    answer(store, bank, "recovered", 0.6)
    labels.write(cart, right=True)
    labels.write(bank, right=True)
    labels.write(bank, right=False)
    Mutes(engine).mute("3", datetime.now(UTC) + timedelta(hours=1), "ana")
    muted = store.get(other)
    assert muted is not None
    Mutes(engine).mute(muted.alert.fingerprint, datetime.now(UTC) + timedelta(hours=1), "ana")
    found = {
        ListingFilter(service="cart"): (cart, other),
        ListingFilter(source="pagerduty"): (bank, other),
        ListingFilter(service="cart", source="pagerduty"): (other,),
        ListingFilter(status="accepted"): (other,),
        ListingFilter(verdict="recovered"): (bank,),
        ListingFilter(least=0.7): (cart,),
        ListingFilter(least=0.5, most=0.7): (bank,),
        ListingFilter(judged="right"): (cart,),
        ListingFilter(judged="wrong"): (bank,),
        ListingFilter(judged="yes"): (cart, bank),
        ListingFilter(judged="no"): (other,),
        ListingFilter(alerts="muted"): (other,),
        ListingFilter(alerts="grouped"): (),
        ListingFilter(since=NOW - timedelta(minutes=2)): (cart, bank),
        ListingFilter(before=NOW - timedelta(minutes=2)): (other,),
        ListingFilter(service="' OR 1=1 --"): (),
        ListingFilter(): (cart, bank, other),
    }
    assert {wanted: listing.page(wanted, size=10).ids for wanted in found} == found
    assert [listing.count(wanted) for wanted in found] == [len(ids) for ids in found.values()]
    assert listing.services() == ("bank", "cart")
    assert listing.sources() == ("datadog", "pagerduty")


def test_words_find_answered_ones_by_all_they_hold_and_open_ones_by_their_title(
    engine: Engine,
) -> None:
    store, listing = Store(engine), Listing(engine)
    answered, open_ = (
        accept(store, 1, title="queue grows"),
        accept(store, 2, title="Disk full on db-7"),
    )
    answer(store, answered, "cause_found", 0.8)
    known = EarlierInvestigation(
        id=answered,
        at=NOW,
        fingerprint="f",
        title="queue grows",
        verdict="cause_found",
        headline="a full disk",
    )
    Memory(engine).remember(known, Alert(source="datadog", title="queue grows", started_at=NOW))
    assert listing.page(ListingFilter(words="disk full"), size=5).ids == (answered, open_)
    assert listing.page(ListingFilter(words="DISK db"), size=5).ids == (open_,)
    assert listing.page(ListingFilter(words="100%_"), size=5).ids == ()
    assert listing.page(ListingFilter(words="!!!"), size=5).ids == ()


def test_pages_lead_back_and_forth_over_all_of_them_each_once(engine: Engine) -> None:
    store, listing = Store(engine), Listing(engine)
    ids = [accept(store, n // 2) if n % 2 == 0 else accept(store, 100 + n) for n in range(13)]
    wanted, after = ListingFilter(), None
    seen: list[str] = []
    while True:
        page = listing.page(wanted, size=4, after=after)
        seen += page.ids
        if page.older is None:
            break
        after = page.older
        accept(store, -len(seen))
    assert sorted(seen) == sorted(ids)
    back = listing.page(wanted, size=4, before=page.newer)
    assert back.ids == tuple(seen[-len(page.ids) - 4 : -len(page.ids)])
    assert back.older == ListingCursor(back.older.at, back.ids[-1]) if back.older else False
    newest = listing.page(wanted, size=4)
    assert newest.newer is None


def test_alerts_that_hold_what_a_database_cannot_give_as_text_are_kept_and_listed(
    engine: Engine,
) -> None:
    store, listing = Store(engine), Listing(engine)
    strange = accept(store, 1, title="a\x00b", service="\x00")
    plain = accept(store, 2, service="cart")
    assert listing.page(ListingFilter(), size=5).ids == (strange, plain)
    assert "cart" in listing.services()
    assert listing.page(ListingFilter(words="b"), size=5) is not None


def test_counting_ends_at_a_bound() -> None:
    assert MOST_COUNTED == 10_000
