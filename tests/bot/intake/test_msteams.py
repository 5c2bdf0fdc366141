"""People in Microsoft Teams: who is believed, who may do what, and what happens then.

Tokens are signed for real, by keys that a local OpenID provider publishes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft7Validator
from sqlalchemy.orm import Session

from faultline.bot.answer.targets.chats.teams_card import answer_extras
from faultline.bot.settings import Settings
from faultline.bot.store.listing import Labels
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.bot.store.tables import InvestigationRow
from tests.bot.answer.targets.answers import an_alert
from tests.bot.answer.targets.fake_chats import CHANNEL
from tests.bot.intake.conftest import serving, store_accept
from tests.bot.intake.teams_on_loopback import (
    PEOPLE,
    Teams,
    chats,
    first_key,
    open_teams,
    published,
    teams,
)
from tests.rsa_keys import signing_key

__all__ = ["chats", "open_teams", "teams"]


def test_a_mention_is_investigated_and_answered_in_its_thread_once(teams: Teams) -> None:
    asked = teams.activity(text="<at>Bot</at>&nbsp;investigate checkout errors since 10:05")
    for _ in range(2):  # Teams sends again what was not answered in time
        assert teams.send(asked).json() == {}
    [found] = teams.store.latest(10)
    assert found.alert.title == "checkout errors since 10:05"
    assert found.reply_to.other_addresses == {"msteams": f"{CHANNEL};messageid=77"}
    teams.store.start(found.id)
    teams.store.finish(found.id, "done", verdict="cause_found", confidence=0.9, headline="x")
    teams.reply(found.id)
    teams.reply(found.id)
    [message] = teams.chats.messages
    assert message.channel == f"{CHANNEL};messageid=77", "in the thread"
    assert len(message.versions) == 2, "edited in place"
    assert "Mute for 8 h" not in teams.titles(), "nobody's alert"


def test_investigate_in_the_thread_of_an_answer_is_about_its_alert(teams: Teams) -> None:
    found, root = teams.answered()
    thread = {"id": f"{CHANNEL};messageid={root}", "conversationType": "channel"}
    assert teams.say("investigate", conversation=thread) == ""
    again = teams.store.latest(1)[0]
    assert again.id != found.id
    assert (again.alert.title, again.alert.service) == (found.alert.title, "checkout")


NOT_OURS: dict[str, Any] = {
    "issuer": {"iss": "https://sts.windows.net/x/"},
    "audience": {"aud": "another-app"},
    "expired": {"exp": 1_700_000_000},
    "not yet valid": {"nbf": 4_000_000_000},
    "another service": {"serviceurl": "https://evil.example/teams"},
    "no service": {"serviceurl": ""},
}


@pytest.mark.parametrize("changed", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_token_that_is_not_for_us_is_refused(teams: Teams, changed: dict[str, Any]) -> None:
    sent = teams.send(teams.activity(text="investigate x"), teams.token(**changed))
    assert (sent.status_code, sent.text) == (401, "signature\n")
    assert teams.store.latest(1) == []


def test_only_keys_that_are_endorsed_for_teams_count_and_they_rotate(teams: Teams) -> None:
    next_key = signing_key(1, "k2")
    assert teams.send(teams.activity(), teams.token(next_key)).status_code == 401
    teams.chats.keys = [published(first_key(), "msteams"), published(next_key, "webchat")]
    assert teams.send(teams.activity(), teams.token(next_key)).status_code == 401
    teams.chats.keys = [published(next_key, "msteams")]
    assert teams.send(teams.activity(), teams.token(next_key)).status_code == 200
    assert teams.send(teams.activity(), teams.token()).status_code == 401
    headers = {"authorization": "Basic x"}
    url = f"{teams.base}/webhooks/msteams"
    assert httpx.post(url, json={}, headers=headers).status_code == 401
    assert httpx.post(url, json={}).status_code == 401


def test_keys_on_another_host_are_not_believed(teams: Teams) -> None:
    teams.chats.keys_host = "http://127.0.0.1:9"
    assert teams.send(teams.activity()).status_code == 503


def test_without_a_tenant_nobody_is_heard(open_teams: Callable[..., Teams]) -> None:
    teams = open_teams()
    own = teams.chats.sections()["msteams"]
    unheard = Settings.model_validate({"msteams": own | {"tenant_id": None}})
    with serving(unheard, store_accept(teams.store)) as base:
        sent = httpx.post(f"{base}/webhooks/msteams", json={})
    assert (sent.status_code, sent.text) == (
        404,
        "not configured: set FAULTLINE_MSTEAMS__TENANT_ID\n",
    )
    teams.settings = unheard
    teams.answered()
    assert teams.titles() == ["Open the investigation"], "nothing to click"


@pytest.mark.parametrize("who", ["29:gus", "29:ext", "29:foe", "29:nobody"])
def test_guests_and_people_of_other_tenants_are_refused(teams: Teams, who: str) -> None:
    found, root = teams.answered()
    thread = {"id": f"{CHANNEL};messageid={root}", "conversationType": "channel"}
    for text in ("investigate checkout", "handover", "mute 8h", "help"):
        said = teams.say(text, who, conversation=thread)
        assert any(one in said for one in ("Guests", "Only members", "did not tell")), said
    for verb in ("right", "wrong", "again", "mute"):
        teams.click(verb, {"investigation": found.id}, who)
    assert [one.id for one in teams.store.latest(10)] == [found.id]
    assert Labels(teams.store.engine).get(found.id) is None
    assert Mutes(teams.store.engine).active(datetime.now(UTC)) == []


def test_what_was_sent_in_another_tenant_is_not_answered(teams: Teams) -> None:
    other = {"tenant": {"id": "other"}}
    assert teams.say("investigate checkout errors", channelData=other) == ""
    assert teams.store.latest(1) == []


def test_what_does_not_mention_the_bot_is_not_for_it(teams: Teams) -> None:
    assert teams.say("investigate checkout errors", entities=[]) == ""
    assert teams.store.latest(1) == []
    alone = {"id": "a:1", "conversationType": "personal"}
    teams.say("investigate checkout errors", entities=[], conversation=alone)
    assert len(teams.store.latest(10)) == 1


def test_a_click_judges_the_answer_and_the_card_shows_it(teams: Teams, shared: Path) -> None:
    found, _ = teams.answered()
    assert teams.titles() == [
        "Open the investigation",
        "Right",
        "Wrong",
        "Run again",
        "Mute for 8 h",
    ]
    schema = json.loads((shared / "specs" / "adaptive-card-1.5.0.schema.json").read_text())
    Draft7Validator(schema).validate(teams.card())
    data = {"investigation": found.id, "cause": "the @everyone cache"}
    assert "kept" in teams.click("wrong", data)
    label = Labels(teams.store.engine).get(found.id)
    assert label is not None
    assert (label.right, label.who) == (False, "Ann")
    with Session(teams.store.engine) as session:
        row = session.get_one(InvestigationRow, found.id)
        assert row.revision > (row.notified_revision or 0), "a worker edits the card"
    teams.reply(found.id)
    assert "Wrong, said Ann" in json.dumps(teams.card())
    people = [one.text for one in teams.store.progress(found.id) if one.stage == "people"]
    assert people == ["Ann said that the answer is wrong: the cause was the @everyone cache"]


def test_mute_and_unmute_by_button_and_by_mention(teams: Teams) -> None:
    found, root = teams.answered()
    thread = {"id": f"{CHANNEL};messageid={root}", "conversationType": "channel"}
    assert "Ann muted this alert until" in teams.click("mute", {"investigation": found.id})
    mutes, now = Mutes(teams.store.engine), datetime.now(UTC)
    mute = mutes.muted(found.alert.fingerprint, now)
    assert mute is not None
    assert timedelta(hours=7) < mute.until - now <= timedelta(hours=8, minutes=1)
    teams.reply(found.id)
    assert "Unmute" in teams.titles()
    assert "Muted until" in json.dumps(teams.card())
    assert "ended the mute" in teams.say("unmute", conversation=thread)
    assert mutes.muted(found.alert.fingerprint, now) is None
    assert "Ann muted" in teams.say("mute 2h", conversation=thread)
    assert "thread of an answer" in teams.say("mute 2h")
    assert "90 days" in teams.say("handover 500d")


def test_a_critical_alert_is_muted_by_an_admin_alone(open_teams: Callable[..., Teams]) -> None:
    teams = open_teams(login={"admins": ["boss-id"]})
    teams.chats.members["29:boss"] = {**PEOPLE["29:ann"], "aadObjectId": "boss-id"}
    found, _ = teams.answered(severity="critical")
    assert "takes the role admin" in teams.click("mute", {"investigation": found.id})
    assert "muted this alert" in teams.click("mute", {"investigation": found.id}, "29:boss")


def test_run_again_is_answered_in_the_same_thread(teams: Teams) -> None:
    found, root = teams.answered()
    thread = {"id": f"{CHANNEL};messageid={root}", "conversationType": "channel"}
    data = {"investigation": found.id}
    assert "looking again" in teams.click("again", data, conversation=thread)
    assert "a moment ago" in teams.click("again", data, conversation=thread)
    fresh = next(one for one in teams.store.latest(10) if one.id != found.id)
    assert fresh.reply_to.other_addresses == {"msteams": thread["id"]}


def test_a_ticket_is_asked_for_and_its_name_comes_into_the_card(
    open_teams: Callable[..., Teams],
) -> None:
    teams = open_teams(github_issues={"repository": "acme/ops"})
    found, _ = teams.answered()
    assert "Create a GitHub issue" in teams.titles()
    data = {"investigation": found.id, "target": "github_issues"}
    assert "on its way" in teams.click("ticket", data)
    assert "not set up" in teams.click("ticket", data | {"target": "slack"})
    kept = teams.store.get(found.id)
    assert kept is not None
    assert kept.reply_to.other_addresses == {"github_issues": f"{found.id} {found.id}"}
    key = f"{found.id}:github_issues"
    teams.store.claim_post(key, found.id, owner="w", lease=timedelta(seconds=1))
    teams.store.record_post(key, "#7 https://github.com/acme/ops/issues/7")
    assert "GitHub issue #7" in answer_extras(key, teams.store, teams.settings).lines


def test_an_investigation_that_was_not_posted_here_cannot_be_clicked(teams: Teams) -> None:
    name = teams.store.accept(an_alert()).investigation_id or ""
    for data in ({"investigation": name}, {"investigation": 5}, {}, {"investigation": "x" * 9999}):
        assert "no longer known" in teams.click("right", data)
    assert "another version" in teams.click("delete", {"investigation": name})


def test_the_handover_tells_nothing_of_slack_channels(teams: Teams) -> None:
    from faultline.bot.store.store import ReplyTo

    private = an_alert(title="secret plans leak", labels={"fingerprint": "p"})
    teams.store.accept(private, reply_to=ReplyTo(slack_channel="C0PRIVATE"))
    teams.store.accept(an_alert(title="disk is full", labels={"fingerprint": "d"}))
    said = teams.say("handover 24h")
    assert "disk is full" in said
    assert "secret plans" not in said


def test_roles_are_those_of_slack(open_teams: Callable[..., Teams]) -> None:
    teams = open_teams(people={"members": "viewer"}, login={"responders": ["bo@corp.example"]})
    teams.chats.members["29:bo"] = {**PEOPLE["29:ann"], "aadObjectId": "bo-id"} | {
        "email": "bo@corp.example"
    }
    found, _ = teams.answered()
    data = {"investigation": found.id}
    assert "takes the role responder" in teams.click("right", data)
    assert "kept" in teams.click("right", data, "29:bo")
    assert "Hand-over" in teams.say("handover") or "open" in teams.say("handover")


BODIES = (
    "[]",
    "{",
    '{"type": 5}',
    '{"type": "message", "channelId": "msteams", "serviceUrl": "x", "conversation": {"id": "a/b"}}',
    "[" * 50_000,
)


@pytest.mark.parametrize("body", BODIES)
def test_signed_nonsense_is_ignored(teams: Teams, body: str) -> None:
    headers = {"authorization": f"Bearer {teams.token()}"}
    sent = httpx.post(f"{teams.base}/webhooks/msteams", content=body, headers=headers)
    assert (sent.status_code, sent.json()["outcome"]) == (200, "ignored")
