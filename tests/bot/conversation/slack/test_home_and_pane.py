"""The Home tab and the assistant's pane, over real HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultline.bot.conversation.slack import home
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.loopback.slack_person import SlackPerson, actions_of
from tests.bot.conversation.slack.conftest import Room, eventually


def shown(room: Room, person: SlackPerson) -> str:
    """What the person's tab says now."""
    opened = room.slack.surfaces.homes.get(person.id)
    return json.dumps(opened.view, ensure_ascii=False) if opened else ""


def test_the_home_tab_shows_investigations_health_judgements_and_mutes(room: Room) -> None:
    investigation, message = room.answered()
    ann = room.person()
    ann.click(message, "faultline_right")
    Mutes(room.store.engine).mute(
        "f" * 16, datetime.now(UTC) + timedelta(hours=1), "bob", "known", title="disk of db-2"
    )
    assert ann.open_home().status_code == 200
    eventually(lambda: "1 of 2 parts do not work" in shown(room, ann), "the tab")
    said = shown(room, ann)
    assert f"/investigations/{investigation.id}" in said
    assert "Cause found" in said
    assert "right, said ann (U0ANN)" in said
    assert "cannot be reached" in said
    assert "0 running" in said
    assert "1 of 1" in said
    assert "disk of db-2" in said


def test_an_empty_home_tab_says_how_to_begin(room: Room) -> None:
    ann = room.person()
    ann.open_home()
    eventually(lambda: "None yet" in shown(room, ann), "the tab")
    assert "Nobody has judged an answer yet" in shown(room, ann)


def test_a_mute_is_ended_from_the_home_tab(room: Room) -> None:
    mutes, now = Mutes(room.store.engine), datetime.now(UTC)
    mutes.mute("f" * 16, now + timedelta(hours=1), "bob", "known", title="disk of db-2")
    ann = room.person()
    ann.open_home()
    eventually(lambda: "disk of db-2" in shown(room, ann), "the tab")
    ann.click(room.slack.surfaces.homes[ann.id], "faultline_home_unmute")
    assert mutes.active(now) == []
    eventually(lambda: "disk of db-2" not in shown(room, ann), "the tab without it")


def test_the_tab_is_not_published_for_each_of_many_openings(room: Room) -> None:
    room.face.home._every_s = 3_600
    ann = room.person()
    for _ in range(8):
        ann.open_home()
    eventually(lambda: "parts do not work" in shown(room, ann), "the tab")
    assert room.slack.traffic.calls["views.publish"] == 2, (
        "at once, and when the parts were checked"
    )
    assert "faultline_home_refresh" in actions_of(room.slack.surfaces.homes[ann.id])


def test_whose_tab_was_published_longest_ago_is_forgotten_first(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(home, "MAX_PEOPLE", 2)
    tab = room.face.home
    for user in ("U1", "U2", "U1", "U3"):
        tab._note(user)
    assert list(tab._published) == ["U1", "U3"]


def test_another_tab_publishes_nothing(room: Room) -> None:
    ann = room.person()
    ann.event({"type": "app_home_opened", "user": ann.id, "channel": "D1", "tab": "messages"})
    ann.open_home()
    eventually(lambda: shown(room, ann), "the tab")
    assert room.slack.traffic.calls["views.publish"] <= 2


def test_the_pane_offers_things_to_ask(room: Room) -> None:
    room.answered()
    ann = room.person()
    channel, thread = ann.open_assistant(looking_at="C0INCIDENTS")
    pane = room.slack.surfaces.panes[channel, thread]
    eventually(lambda: pane.prompts, "prompts")
    messages = [prompt["message"] for prompt in pane.prompts]
    assert messages == [
        "status",
        "investigate errors and latency of checkout in the last hour",
        "help",
    ]


def test_a_slack_that_does_not_answer_costs_nothing_but_the_tab(room: Room) -> None:
    room.slack.traffic.fail_next(1, 500, call="views.publish")
    ann = room.person()
    assert ann.open_home().status_code == 200
    ann.open_home()
    eventually(lambda: shown(room, ann), "the tab")


def test_misshapen_events_of_the_pane_are_acknowledged(room: Room) -> None:
    ann = room.person()
    wrong: list[Any] = [None, "x", {}, {"channel_id": 1, "thread_ts": []}]
    for thread in wrong:
        assert (
            ann.event({"type": "assistant_thread_started", "assistant_thread": thread}).status_code
            == 200
        )
