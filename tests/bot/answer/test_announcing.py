"""First messages: posted at once, once, whatever the workers are busy with; one bad channel
delays no other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.announcing import Announce
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.settings import Settings
from faultline.bot.store.messages import Announcing
from faultline.bot.store.store import ReplyTo, Store
from faultline.connectors.vendors.slack import SlackSettings
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
CHANNELS = {f"C{n}": f"channel-{n}" for n in range(6)}


@pytest.fixture
def slack() -> Iterator[tuple[LoopbackSlack, str]]:
    loopback = LoopbackSlack(channels=CHANNELS)
    url, stop = serve_in_thread(loopback.app)
    yield loopback, f"{url}/api"
    stop()


def accept(
    store: Store, channel: str, title: str, *, at: datetime = NOW, severity: str | None = None
) -> str:
    alert = Alert(source="t", title=title, started_at=NOW, severity=severity)
    return store.accept(alert, reply_to=ReplyTo(channel), now=at).investigation_id or ""


def announce(store: Store, url: str, owner: str = "w") -> Announce:
    settings = Settings(slack=SlackSettings(bot_token="xoxb-1", channel="C0", api_url=url))
    return Announce(store, [SlackReplies(settings, store, owner=owner)], every_s=0.02)


@contextmanager
def announcing(*loops: Announce) -> Iterator[None]:
    for loop in loops:
        loop.start()
    yield
    for loop in loops:
        loop.stop()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    pause = threading.Event()
    for _ in range(6000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError(what)


def test_each_accepted_alert_is_announced_once_by_several_workers(
    store: Store, slack: tuple[LoopbackSlack, str]
) -> None:
    loopback, url = slack
    for number in range(30):
        accept(store, f"C{number % 5}", f"alert {number}")
    with announcing(*(announce(store, url, f"w{n}") for n in range(3))):
        wait_for(lambda: len(loopback.posts) >= 30, "thirty first messages")
    keys = Counter((m.metadata or {})["event_payload"]["key"] for m in loopback.posts)
    assert (len(keys), set(keys.values())) == (30, {1})
    assert all("Investigating" in m.text for m in loopback.posts)
    assert Announcing(store.engine).due(5) == []


def test_a_channel_that_slack_limits_keeps_no_other_waiting(
    store: Store, slack: tuple[LoopbackSlack, str]
) -> None:
    loopback, url = slack
    for number in range(3):
        accept(store, "C1", f"limited {number}")
    loopback.traffic.fail_next(
        1, 429, call="chat.postMessage", headers={"retry-after": "600"}, error="ratelimited"
    )
    with announcing(announce(store, url)):
        wait_for(lambda: loopback.traffic.calls["chat.postMessage"] >= 1, "the limited post")
        for number in range(10):
            accept(store, f"C{2 + number % 3}", f"free {number}")
        wait_for(lambda: len(loopback.posts) >= 10, "the others")
        assert {m.channel for m in loopback.posts} == {"C2", "C3", "C4"}, (
            "while the limited channel waits"
        )


def test_the_most_urgent_of_a_channel_is_announced_first(
    store: Store, slack: tuple[LoopbackSlack, str]
) -> None:
    loopback, url = slack
    accept(store, "C1", "usual")
    accept(store, "C1", "urgent", at=NOW + timedelta(minutes=1), severity="P1")
    with announcing(announce(store, url)):
        wait_for(lambda: len(loopback.posts) >= 2, "both")
    assert ["urgent" in m.text for m in loopback.posts] == [True, False]


def test_quiet_hours_and_what_a_worker_has_begun_are_left_alone(store: Store) -> None:
    due = Announcing(store.engine)
    begun = accept(store, "C1", "begun")
    assert [d.investigation_id for d in due.due(5)] == [begun]
    assert due.due(5, busy={"C1"}) == []
    store.start(begun)
    assert due.due(5) == []
    assert not due.claim(begun, NOW)
    waiting = accept(store, "C1", "waiting")
    assert due.claim(waiting, NOW)
    assert not due.claim(waiting, NOW), "once"


def test_a_refusal_is_said_and_left_to_the_investigation(
    store: Store, slack: tuple[LoopbackSlack, str]
) -> None:
    loopback, url = slack
    loopback.not_in.add("C1")
    refused = accept(store, "C1", "refused")
    accept(store, "C2", "fine")
    with announcing(announce(store, url)):
        wait_for(
            lambda: len(loopback.posts) >= 1 and bool(store.progress(refused)),
            "one post, one refusal",
        )
    assert "not in channel C1" in store.progress(refused)[0].text


def test_a_store_that_is_away_for_a_moment_ends_nothing(
    store: Store, slack: tuple[LoopbackSlack, str]
) -> None:
    loopback, url = slack
    loop = announce(store, url)
    real, failed = loop._announcing.due, threading.Event()

    def away(*given: object) -> list[object]:
        if not failed.is_set():
            failed.set()
            raise OSError("away")
        return real(*given)  # type: ignore[arg-type,return-value]

    loop._announcing.due = away  # type: ignore[method-assign,assignment]
    accept(store, "C1", "later")
    with announcing(loop):
        wait_for(lambda: len(loopback.posts) == 1, "the message")
    assert failed.is_set()
