"""One post outside, wherever its poster dies and however many try."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.posting import LEASE, REQUEST_TIMEOUT_S, post_once
from faultline.bot.store.store import PostClaim, ReplyTo, Store
from tests.bot.answer.targets.answers import a_store, accepted

# Long beside what a busy machine takes for a step.
SHORT = timedelta(seconds=1)


class Died(BaseException):
    """The process is gone: nothing after this point runs."""


@dataclass
class Vendor:
    """Stores every post, as vendors do. `die` names where the poster dies."""

    stored: list[str] = field(default_factory=list)
    finds: int = 0
    die: str = ""
    takes_s: float = 0.0

    async def send(self) -> str:
        if self.die == "before send":
            raise Died
        await asyncio.sleep(self.takes_s)
        self.stored.append(f"m{len(self.stored) + 1}")
        if self.die == "after store":
            raise Died
        return self.stored[-1]

    async def find(self) -> str | None:
        self.finds += 1
        return self.stored[0] if self.stored else None


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return a_store(tmp_path)


def post(store: Store, vendor: Vendor, owner: str, *, lease: timedelta = SHORT) -> str:
    return asyncio.run(posting(store, vendor, owner, lease=lease))


async def posting(store: Store, vendor: Vendor, owner: str, *, lease: timedelta = SHORT) -> str:
    investigation = store.latest(1)[0].id if store.count() else accepted(store, ReplyTo()).id
    return await post_once(
        store, "key", investigation, owner=owner, find=vendor.find, send=vendor.send, lease=lease
    )


def test_a_post_is_sent_once_and_remembered(store: Store) -> None:
    vendor = Vendor()
    assert [post(store, vendor, owner) for owner in ("a", "a", "b")] == ["m1", "m1", "m1"]
    assert vendor.stored == ["m1"]
    assert vendor.finds == 0


def test_the_lease_outlives_a_request() -> None:
    assert LEASE.total_seconds() > REQUEST_TIMEOUT_S


@pytest.mark.parametrize("die", ["before send", "after store"])
@pytest.mark.parametrize("successor", ["a", "b"])
def test_a_successor_posts_once_wherever_its_predecessor_died(
    store: Store, die: str, successor: str
) -> None:
    vendor = Vendor(die=die)
    with pytest.raises(Died):
        post(store, vendor, "a")
    vendor.die = ""
    assert post(store, vendor, successor) == "m1"
    assert vendor.stored == ["m1"]
    assert vendor.finds == (1 if die == "after store" else 3)


def test_a_post_that_could_not_be_recorded_is_found_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = Vendor()

    def gone(key: str, ref: str) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(store, "record_post", gone)
        with pytest.raises(Died):
            post(store, vendor, "a")
    assert post(store, vendor, "b") == "m1"
    assert vendor.stored == ["m1"]


def test_a_successor_waits_until_the_attempt_can_no_longer_be_under_way(store: Store) -> None:
    vendor = Vendor(die="before send")
    began = datetime.now(UTC)
    with pytest.raises(Died):
        post(store, vendor, "a")
    vendor.die = ""
    post(store, vendor, "b")
    assert datetime.now(UTC) - began >= SHORT


@pytest.mark.parametrize("leases", [0.5, 1.5, 2.5])
def test_a_post_that_the_vendor_applies_late_is_not_sent_again(store: Store, leases: float) -> None:
    # Half a lease lies between what is late and the next look: more than a busy machine takes.
    lease = timedelta(seconds=1)

    class Late(Vendor):
        async def send(self) -> str:
            name = f"m{len(self.stored) + 1}"
            late_s = leases * lease.total_seconds()
            asyncio.get_running_loop().call_later(late_s, self.stored.append, name)
            raise OSError("no answer in time")

    vendor = Late()

    async def twice() -> str:
        with pytest.raises(OSError, match="no answer"):
            await posting(store, vendor, "a", lease=lease)
        return await posting(store, vendor, "b", lease=lease)

    assert asyncio.run(twice()) == "m1"
    assert vendor.stored == ["m1"]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_holder_whose_renewals_fail_stops_posting_when_its_lease_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    claim, again = store.claim_post, threading.Event()
    claims: list[str] = []

    def failing(key: str, about: str, *, owner: str, lease: timedelta) -> PostClaim:
        claims.append(owner)
        if len(claims) == 1:
            return claim(key, about, owner=owner, lease=lease)
        if hangs:
            again.wait(10)
        raise OperationalError("UPDATE posts", {}, OSError("the server is gone"))

    class Watched(Vendor):
        async def send(self) -> str:
            try:
                return await super().send()
            except asyncio.CancelledError:
                stopped.set()
                raise

    vendor, stopped = Watched(takes_s=30), asyncio.Event()
    monkeypatch.setattr(store, "claim_post", failing)

    async def held() -> None:
        task = asyncio.create_task(posting(store, vendor, "a"))
        await asyncio.wait_for(stopped.wait(), 10 * SHORT.total_seconds())
        again.set()
        with pytest.raises(OperationalError):
            await task

    accepted(store, ReplyTo())
    asyncio.run(held())
    assert vendor.stored == []


def test_a_holder_that_stood_still_while_it_looked_leaves_the_post_to_its_successor(
    store: Store,
) -> None:
    class StandsStill(Vendor):
        async def find(self) -> str | None:
            await super().find()
            if self.finds == 1:
                store.claim_post("key", "", owner="successor", lease=timedelta(0))
                store.record_post("key", "theirs")
            return None

    vendor = StandsStill(die="before send")
    with pytest.raises(Died):
        post(store, vendor, "a")
    vendor.die = ""
    assert post(store, vendor, "b") == "theirs"
    assert vendor.stored == []


def test_a_failure_of_the_vendor_is_raised_and_the_next_call_looks_before_it_sends(
    store: Store,
) -> None:
    class Refusing(Vendor):
        async def send(self) -> str:
            self.stored.append("m1")
            raise OSError("connection reset after the request")

    vendor = Refusing()
    with pytest.raises(OSError, match="reset"):
        post(store, vendor, "a")
    assert post(store, vendor, "a") == "m1"
    assert vendor.stored == ["m1"]


LONG = timedelta(seconds=60)


def refusal(*, unchanged: bool) -> ConnectorError:
    return ConnectorError("vendor", "post", "asks to wait", retryable=True, unchanged=unchanged)


def test_a_refused_post_is_sent_again_at_once_and_looked_for_never(store: Store) -> None:
    class Refusing(Vendor):
        refusals = 2

        async def send(self) -> str:
            if self.refusals:
                self.refusals -= 1
                raise refusal(unchanged=True)
            return await super().send()

    vendor, began = Refusing(), datetime.now(UTC)
    for owner in ("a", "b"):
        with pytest.raises(ConnectorError, match="asks to wait"):
            post(store, vendor, owner, lease=LONG)
    assert post(store, vendor, "c", lease=LONG) == "m1"
    assert datetime.now(UTC) - began < LONG / 2
    assert vendor.finds == 0


def test_a_post_with_an_unknown_outcome_is_looked_for_also_where_a_refusal_follows(
    store: Store,
) -> None:
    class Unsure(Vendor):
        tries = 0

        async def send(self) -> str:
            self.tries += 1
            if self.tries == 1:
                await super().send()
                raise refusal(unchanged=False)
            raise refusal(unchanged=True)

    vendor = Unsure()
    with pytest.raises(ConnectorError):
        post(store, vendor, "a")
    assert post(store, vendor, "b") == "m1"
    assert vendor.tries == 1


def test_a_refusal_stays_one_where_the_database_is_away(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(Vendor):
        async def send(self) -> str:
            raise refusal(unchanged=True)

    def away(key: str, *, owner: str) -> None:
        raise OperationalError("DELETE FROM posts", {}, OSError("the server is gone"))

    monkeypatch.setattr(store, "release_post", away)
    with pytest.raises(ConnectorError, match="asks to wait"):
        post(store, Refusing(), "a")


def test_nobody_gives_back_the_claim_of_another_or_a_post_that_stands(store: Store) -> None:
    accepted(store, ReplyTo())
    investigation = store.latest(1)[0].id
    store.claim_post("key", investigation, owner="a", lease=LONG)
    store.release_post("key", owner="b")
    assert not store.claim_post("key", investigation, owner="b", lease=LONG).mine
    store.record_post("key", "m1")
    store.release_post("key", owner="a")
    assert store.posts(investigation) == {"key": "m1"}


@pytest.mark.parametrize("takes_s", [0.05, 1.2])
def test_two_live_workers_post_once_even_when_the_vendor_takes_longer_than_the_lease(
    store: Store, takes_s: float
) -> None:
    vendor = Vendor(takes_s=takes_s)

    async def both() -> list[str]:
        return await asyncio.gather(*(posting(store, vendor, owner) for owner in ("a", "b", "b")))

    accepted(store, ReplyTo())
    assert asyncio.run(both()) == ["m1", "m1", "m1"]
    assert vendor.stored == ["m1"]


def test_a_cancelled_post_stops_holding_its_claim(store: Store) -> None:
    vendor = Vendor(takes_s=30)

    async def cancelled() -> None:
        task = asyncio.create_task(posting(store, vendor, "a"))
        await asyncio.sleep(0.15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    accepted(store, ReplyTo())
    asyncio.run(cancelled())
    vendor.takes_s = 0
    assert post(store, vendor, "b") == "m1"
    assert vendor.stored == ["m1"]
