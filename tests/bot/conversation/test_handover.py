"""`handover` in Slack: the next shift asks in a channel and in a direct message, and hears what it
may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.training.fleet_parts import BlamedPart
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.store import ReplyTo
from faultline.bot.store.suppressed_alerts import Mutes
from tests.bot.conversation.test_isolation import SEARCH, apart, belongs
from tests.bot.conversation.test_steps import DM, PRIVATE, PUBLIC, Talk, talk

__all__ = ["apart", "talk"]

HOSTS = tuple(f"gpu-{n:02d}" for n in range(1, 17))


def fired(
    talk: Talk,
    channel: str,
    title: str,
    *,
    hours_ago: float = 1,
    verdict: str = "no_active_incident",
    is_open: bool = False,
    team: str = "",
) -> str:
    """An alert that was answered in a channel."""
    store, at = talk.store, datetime.now(UTC) - timedelta(hours=hours_ago)
    alert = Alert(
        source="test", title=title, started_at=at, labels={"fingerprint": f"{at} {title}"}
    )
    id_ = store.accept(alert, reply_to=ReplyTo(channel), now=at).investigation_id or ""
    store.finish(id_, "done", verdict=verdict, confidence=0.9, headline=f"{title}, answered")
    if not is_open:
        over = alert.model_copy(update={"status": "resolved"})
        store.accept(over, now=at + timedelta(minutes=6))
    belongs(talk, id_, team)
    return id_


def said(talk: Talk, text: str, channel: str, surface: str = "mention") -> str:
    question = talk.ask(text, channel, surface=surface)
    talk.work(question)
    return talk.said(question)


def test_the_next_shift_asks_and_reads_what_to_look_at_first(talk: Talk) -> None:
    for hours in (3, 9, 27):
        fired(talk, PUBLIC, "Disk of <!channel> is filling", hours_ago=hours)
    waiting = fired(talk, PUBLIC, "Errors of cart", verdict="cause_found", is_open=True)
    question = talk.ask("handover", PUBLIC)
    talk.work(question)
    (message,) = talk.replies(question)
    answer = talk.said(question)
    assert "4 alerts in the last 7 days: 1 with a cause, 3 with nothing wrong" in answer
    assert "Errors of cart, for 60 min: Errors of cart, answered" in answer
    assert f"/investigations/{waiting}" in answer
    assert "fired 3 times, 3 with nothing wrong, median length 6 min" in answer
    assert "<!channel>" not in message.text, "no text of an alert calls anybody"
    assert "3 alerts in the last 24 hours" in said(talk, "handover 24h please", DM, "dm")


def test_nobody_hears_of_alerts_machines_and_mutes_of_a_channel_that_he_cannot_see(
    talk: Talk,
) -> None:
    fired(talk, PUBLIC, "Latency of cart", is_open=True)
    secret = [fired(talk, PRIVATE, "Secret errors", hours_ago=h) for h in (30, 60, 90, 120)]
    fleet = FleetMemory(talk.store.engine)
    for id_ in secret:
        found = talk.store.get(id_)
        assert found is not None
        blamed = [BlamedPart(host="gpu-07", part="gpu3", fault="gpu_xid")]
        fleet.remember(id_, at=found.accepted_at, job="llm", hosts=HOSTS, blamed=blamed)
        print_, until = found.alert.fingerprint, datetime.now(UTC) + timedelta(hours=2)
        Mutes(talk.store.engine).mute(print_, until, "bob", title="Secret mute")
    for channel, surface in ((PUBLIC, "mention"), (DM, "dm")):
        answer = said(talk, "handover", channel, surface)
        assert "Latency of cart" in answer
        assert "1 alert in" in answer
        assert "Secret" not in answer
        assert "gpu-07" not in answer
    answer = said(talk, "handover", PRIVATE)
    assert "Latency" not in answer
    assert "Secret errors" in answer
    assert "Secret mute" in answer
    assert "gpu-07 (4 of 4 incidents) was to blame" in answer


def test_teams_stand_apart_and_one_can_be_named(talk: Talk) -> None:
    fired(talk, PUBLIC, "Errors of cart", team="payments", is_open=True)
    fired(talk, PUBLIC, "Index is late", team="search", is_open=True)
    answer = said(talk, "handover", PUBLIC)
    assert "Hand-over of 2 teams" in answer
    assert "payments: Errors of cart" in answer
    assert "search: Index is late" in answer
    answer = said(talk, "handover for team Search since 3d", PUBLIC)
    assert "search: 1 alert in the last 3 days" in answer
    assert "Errors of cart" not in answer


def test_with_teams_apart_a_channel_hears_of_its_own_team(apart: Talk) -> None:
    fired(apart, PUBLIC, "Errors of cart", team="payments", is_open=True)
    fired(apart, SEARCH, "Index is late", team="search", is_open=True)
    for text in ("handover", "handover payments"):
        answer = said(apart, text, SEARCH)
        assert "Errors of cart" not in answer
    assert "Index is late" in said(apart, "handover", SEARCH)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("handover 3x", "Say how far back, 90 days at most: handover 24h"),
        ("handover 9999d", "Say how far back, 90 days at most: handover 24h"),
        ("handover", "No alert that I may tell of here in that time, and none is open."),
        ("handover nobody", "No alert of a team nobody that I may tell of here in that time"),
    ],
)
def test_what_cannot_be_answered_is_said(talk: Talk, text: str, answer: str) -> None:
    assert answer in said(talk, text, PUBLIC)


def test_a_long_hand_over_fits_into_a_message_and_says_what_it_left_out(talk: Talk) -> None:
    for number in range(9):
        fired(talk, PUBLIC, f"{'&<>' * 60} {'abcdefghi'[number]}", is_open=True)
    question = talk.ask("handover", PUBLIC)
    talk.work(question)
    assert "Left out: 5 open" in talk.said(question)
