"""Who may press buttons and send forms in Slack, over real HTTP with real signatures."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from faultline.bot.settings.people import PeopleSettings
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import ReplyTo, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute, Mutes
from faultline.loopback.slack import SlackedMessage
from faultline.loopback.slack_person import SlackPerson
from faultline.loopback.slack_views import SlackView
from tests.bot.conversation.slack.conftest import CHANNEL, Room, eventually

MEMBERS_ONLY = "Only members of this workspace may do this."
GUESTS = "Guests of this workspace may not do this. Ask a full member."


def mutes(room: Room) -> list[Mute]:
    return Mutes(room.store.engine).active(datetime.now(UTC))


def mute_form(
    room: Room, person: SlackPerson, answered: tuple[StoredInvestigation, SlackedMessage]
) -> SlackView:
    """The form that the person opens under an answer."""
    investigation, message = answered
    person.click(message, "faultline_more", option=f"mute {investigation.id}")
    form: SlackView = eventually(lambda: room.slack.surfaces.opened_by(person.id), "a form")[-1]
    return form


def errors(person: SlackPerson) -> str:
    """What the form says after it was sent."""
    return " ".join(person.answers[-1].json()["errors"].values())


def allow(room: Room, **people: Any) -> None:
    """Change the settings of people, as a restart would."""
    room.settings.__dict__["people"] = PeopleSettings(**people)
    context = room.face.context
    context.people._people = room.settings.people
    context.mutes.longest = timedelta(hours=room.settings.people.mute_hours)


@pytest.mark.parametrize("account", [{}, {"is_stranger": True, "team_id": "T0OTHER"}])
def test_somebody_of_another_company_presses_no_button(room: Room, account: dict[str, Any]) -> None:
    investigation, message = room.answered()
    eve = room.person("eve")
    eve.team = "T0LOOPBACK" if account else "T0OTHER"
    room.slack.users[eve.id] = account
    for option in ("mute", "again"):
        eve.click(message, "faultline_more", option=f"{option} {investigation.id}")
    for action in ("faultline_evidence", "faultline_right", "faultline_wrong", "faultline_wider"):
        eve.click(message, action)
    eventually(lambda: len(room.said_aside()) == 6, "a line for each click")
    assert set(room.said_aside()) == {MEMBERS_ONLY}
    assert room.slack.surfaces.opened_by(eve.id) == []
    assert room.store.count() == 1
    assert Labels(room.store.engine).count() == 0
    assert room.people_did(investigation.id) == []


def test_a_stranger_who_sends_the_form_of_a_mute_mutes_nothing(room: Room) -> None:
    answered = room.answered(severity="warning")
    ann, eve = room.person(), room.person("eve")
    form = mute_form(room, ann, answered)
    eve.team = "T0OTHER"
    eve.submit(form, **{"for": "resolved"})
    assert errors(eve) == MEMBERS_ONLY
    assert mutes(room) == []


def test_a_guest_is_refused_and_may_where_the_settings_let_guests(room: Room) -> None:
    _, message = room.answered()
    gus = room.person("gus")
    room.slack.users[gus.id] = {"is_restricted": True}
    gus.click(message, "faultline_right")
    eventually(room.said_aside, "a line")
    assert room.said_aside() == [GUESTS]
    assert Labels(room.store.engine).count() == 0
    allow(room, guests="responder")
    gus.click(message, "faultline_right")
    assert Labels(room.store.engine).count() == 1


def test_a_click_that_was_sent_for_another_workspace_is_nothing(room: Room) -> None:
    _, message = room.answered()
    ann = room.person()
    own = ann._payload
    ann._payload = lambda *given: own(*given) | {"team": {"id": "T0OTHER"}}  # type: ignore[method-assign]
    assert ann.click(message, "faultline_right").status_code == 200
    assert Labels(room.store.engine).count() == 0


def test_a_mute_is_announced_in_the_channel_with_its_end_and_who_made_it(room: Room) -> None:
    answered = room.answered(severity="warning", title="disk of db-2 & more")
    ann = room.person()
    before = len(room.slack.posts)
    ann.submit(mute_form(room, ann, answered), **{"for": "8h", "reason": "being replaced"})
    (mute,) = mutes(room)
    told = eventually(lambda: room.slack.posts[before:], "the announcement")[0]
    said = json.dumps(told.blocks)
    assert f"ann (U0ANN) muted this alert until {mute.until:%Y-%m-%d %H:%M} UTC" in said
    assert "disk of db-2 & more" in said
    assert "Reason: being replaced" in said
    assert (told.channel, told.thread_ts) == (CHANNEL, answered[1].ts)


def test_an_announcement_that_slack_fails_to_take_at_first_is_made_once(room: Room) -> None:
    answered = room.answered(severity="warning")
    ann = room.person()
    form = mute_form(room, ann, answered)
    before = len(room.slack.posts)
    room.slack.traffic.fail_next(1, 500, call="chat.postMessage")
    ann.submit(form, **{"for": "1h"})
    eventually(lambda: len(room.slack.posts) > before, "the announcement")
    assert len(room.slack.posts) == before + 1


def test_a_mute_ends_with_the_day_whatever_is_asked_for(room: Room) -> None:
    answered = room.answered(severity="warning")
    ann = room.person()
    form = mute_form(room, ann, answered)
    assert "Until it is resolved, 24 hours at most" in json.dumps(form.view)
    ann.submit(form, **{"for": "resolved"})
    (mute,) = mutes(room)
    assert mute.until - mute.at <= timedelta(hours=24)


def test_the_longest_mute_is_a_setting(room: Room) -> None:
    allow(room, mute_hours=2)
    ann = room.person()
    form = mute_form(room, ann, room.answered(severity="warning"))
    shown = json.dumps(form.view)
    assert "Until it is resolved, 2 hours at most" in shown
    assert "8 hours" not in shown
    ann.submit(form, **{"for": "resolved"})
    (mute,) = mutes(room)
    assert mute.until - mute.at <= timedelta(hours=2)


def test_a_critical_alert_is_muted_by_an_admin_alone(room: Room) -> None:
    answered = room.answered(severity="critical")
    ann, bob = room.person(), room.person("bob")
    room.slack.users[bob.id] = {"is_owner": True}
    ann.submit(mute_form(room, ann, answered), **{"for": "1h"})
    assert errors(ann) == "This takes the role admin; yours is responder."
    assert mutes(room) == []
    bob.submit(mute_form(room, bob, answered), **{"for": "1h"})
    assert [mute.by for mute in mutes(room)] == ["bob (U0BOB)"]
    assert room.store.accept(answered[0].alert).outcome == "muted"


def test_without_the_scope_to_look_people_up_nobody_mutes_a_critical_alert(room: Room) -> None:
    room.slack.users["U0BOB"] = {"is_owner": True}
    room.slack.traffic.fail_next(9, 200, call="users.info", error="missing_scope")
    answered = room.answered(severity="critical")
    bob = room.person("bob")
    bob.submit(mute_form(room, bob, answered), **{"for": "1h"})
    assert "Slack did not tell me who you are" in errors(bob)
    assert mutes(room) == []


def test_an_alert_that_becomes_critical_is_not_silenced_by_a_responders_mute(room: Room) -> None:
    answered = room.answered(severity="warning")
    ann = room.person()
    ann.submit(mute_form(room, ann, answered), **{"for": "8h"})
    alert = answered[0].alert
    assert room.store.accept(alert).outcome == "muted"
    worse = alert.model_copy(update={"severity": "critical"})
    assert room.store.accept(worse).outcome != "muted"


def test_one_person_mutes_so_often_in_a_day(room: Room) -> None:
    allow(room, mutes_per_day=1)
    ann, bob = room.person(), room.person("bob")
    ann.submit(mute_form(room, ann, room.answered(severity="warning")), **{"for": "1h"})
    second = room.answered(severity="warning")
    ann.submit(mute_form(room, ann, second), **{"for": "1h"})
    assert errors(ann) == "You have reached your limit of 1 mutes per day."
    bob.submit(mute_form(room, bob, second), **{"for": "1h"})
    assert len(mutes(room)) == 2


def test_one_person_starts_so_many_follow_ups_in_an_hour(room: Room) -> None:
    allow(room, investigations_per_hour=1)
    ann = room.person()
    (_, first), (_, second) = room.answered(), room.answered()
    ann.click(first, "faultline_wider")
    ann.click(second, "faultline_wider")
    eventually(room.said_aside, "a line")
    assert "limit of 1 investigations per hour" in room.said_aside()[0]
    assert room.store.count() == 3


def test_a_stranger_ends_no_mute_from_the_home_tab(room: Room) -> None:
    held, now = Mutes(room.store.engine), datetime.now(UTC)
    held.mute("f" * 16, now + timedelta(hours=1), "bob", "known", title="disk of db-2")
    ann, gus = room.person(), room.person("gus")
    ann.open_home()
    home = eventually(lambda: room.slack.surfaces.homes.get(ann.id), "the tab")
    eventually(lambda: "disk of db-2" in json.dumps(home.view), "the mute")
    room.slack.users[gus.id] = {"is_ultra_restricted": True}
    gus.click(home, "faultline_home_unmute")
    assert len(mutes(room)) == 1
    gus.open_home()
    shown = eventually(lambda: room.slack.surfaces.homes.get(gus.id), "a tab")
    assert GUESTS in json.dumps(shown.view)
    assert "disk of db-2" not in json.dumps(shown.view)


def test_the_home_tab_shows_a_private_channels_investigations_to_its_members(room: Room) -> None:
    room.slack.channels["C0SECRET"] = "secret"
    room.slack.private.add("C0SECRET")
    room.slack.members["C0SECRET"] = {"U0BOB"}
    private, _ = room.answered(title="merger talks", reply_to=ReplyTo("C0SECRET", "1.0"))
    room.answered(title="disk of db-2")
    Mutes(room.store.engine).mute(
        private.alert.fingerprint,
        datetime.now(UTC) + timedelta(hours=1),
        "bob",
        title="merger talks",
        covers_critical=True,
    )
    ann, bob = room.person(), room.person("bob")
    for one in (ann, bob):
        one.open_home()
        eventually(partial(is_shown, room, one, "disk of db-2"), "the tab")
    assert "merger talks" in shown(room, bob)
    assert "merger talks" not in shown(room, ann)


def shown(room: Room, person: SlackPerson) -> str:
    home = room.slack.surfaces.homes.get(person.id)
    return json.dumps(home.view) if home else ""


def is_shown(room: Room, person: SlackPerson, text: str) -> bool:
    return text in shown(room, person)
