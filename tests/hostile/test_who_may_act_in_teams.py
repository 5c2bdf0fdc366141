"""Everybody who can reach the bot in Microsoft Teams tries everything that can be done there, by
signed requests: each gets what their role allows, and whatever else they try changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from faultline.bot.policy.people import ROLES, Role
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mutes
from tests.bot.answer.targets.fake_chats import CHANNEL
from tests.bot.intake.conftest import sqlite_store
from tests.bot.intake.teams_on_loopback import HOME, PEOPLE, Teams, chats, open_teams

__all__ = ["chats", "open_teams", "sqlite_store"]

MEMBER = PEOPLE["29:ann"]
NAMED: dict[Role, str] = {role: f"{role}-id" for role in ROLES}
"""In Entra, of one member for each role."""
ACCOUNTS: dict[str, dict[str, Any]] = {
    **{role: {**MEMBER, "aadObjectId": name} for role, name in NAMED.items()},
    "member without a role": MEMBER,
    "guest": PEOPLE["29:gus"],
    "guest by name": PEOPLE["29:ext"],
    "of another tenant": PEOPLE["29:foe"],
    "bot": {"name": "CI", "userRole": "bot", "tenantId": HOME},
    "without an object id": {"name": "X", "userRole": "user", "tenantId": HOME},
}
"""What Teams says of each of them."""
STRANGER = "unknown to Teams"
REFUSALS = {
    "member without a role": "You have no role here. An admin of Faultline gives one.",
    "guest": "Guests of this team may not do this. Ask a full member.",
    "guest by name": "Guests of this team may not do this. Ask a full member.",
    "of another tenant": "Only members of this organisation may do this.",
    "bot": "Guests of this team may not do this. Ask a full member.",
    "without an object id": "You have no role here. An admin of Faultline gives one.",
    STRANGER: "Teams did not tell who you are. Please try again.",
}
FOUND = "payments v2 breaks checkout"
"""What the answer says."""
TRACKERS = {
    "github_issues": {"repository": "acme/ops"},
    "github_reverts": {"repositories": ["acme/shop"], "token": "a-token"},
}


def account_id(who: str) -> str:
    return f"29:{who.replace(' ', '-')}"


@dataclass
class Try:
    """Somebody, before an answer that nobody else has touched."""

    teams: Teams
    who: str
    found: StoredInvestigation
    root: str

    def say(self, text: str) -> str:
        thread = {"id": f"{CHANNEL};messageid={self.root}", "conversationType": "channel"}
        return self.teams.say(text, account_id(self.who), conversation=thread)

    def click(self, verb: str, **data: Any) -> str:
        return self.teams.click(
            verb, {"investigation": self.found.id, **data}, account_id(self.who)
        )

    @property
    def muted(self) -> bool:
        mutes = Mutes(self.teams.store.engine)
        return mutes.muted(self.found.alert.fingerprint, datetime.now(UTC)) is not None

    def state(self) -> list[Any]:
        """All that an act could change."""
        store = self.teams.store
        kept = store.get(self.found.id)
        assert kept is not None
        label = Labels(store.engine).get(self.found.id)
        noted = [line.text for line in store.progress(self.found.id)]
        questions = Conversations(store.engine).waiting()
        return [store.count(), questions, label, self.muted, kept.reply_to.other_addresses, noted]


@dataclass(frozen=True)
class Tried:
    """One act: the least role that may do it, none where nobody may, and whether it was done."""

    takes: Role | None
    do: Callable[[Try], str]
    done: Callable[[Try, str], bool]
    critical: bool = False
    muted_before: bool = False


def begun(one: Try, _said: str) -> bool:
    return one.state()[0] == 2


def judged(one: Try, _said: str) -> bool:
    return Labels(one.teams.store.engine).get(one.found.id) is not None


def asked_for(one: Try, _said: str) -> bool:
    return "github_issues" in one.state()[4]


def asked(one: Try, said: str) -> bool:
    return said == "" and Conversations(one.teams.store.engine).waiting() == 1


def has(words: str) -> Callable[[Try, str], bool]:
    return lambda _one, said: words in said


def muted(one: Try, _said: str) -> bool:
    return one.muted


def heard(one: Try, _said: str) -> bool:
    return not one.muted


def never(_one: Try, _said: str) -> bool:
    return False


ACTS = {
    "help": Tried("viewer", lambda one: one.say("help"), has("I investigate alerts.")),
    "digest": Tried("viewer", lambda one: one.say("handover 24h"), has(FOUND)),
    "ask": Tried("responder", lambda one: one.say("is it the database?"), asked),
    "explain": Tried("responder", lambda one: one.say("explain F1"), asked),
    "investigate": Tried("responder", lambda one: one.say("investigate checkout errors"), begun),
    "investigate again": Tried("responder", lambda one: one.say("investigate"), begun),
    "run again": Tried("responder", lambda one: one.click("again"), begun),
    "right": Tried("responder", lambda one: one.click("right"), judged),
    "wrong": Tried("responder", lambda one: one.click("wrong", cause="the deploy"), judged),
    "ticket": Tried(
        "responder", lambda one: one.click("ticket", target="github_issues"), asked_for
    ),
    "mute": Tried("responder", lambda one: one.say("mute 8h"), muted),
    "mute by click": Tried("responder", lambda one: one.click("mute"), muted),
    "unmute": Tried("responder", lambda one: one.say("unmute"), heard, muted_before=True),
    "unmute by click": Tried(
        "responder",
        lambda one: one.click("unmute"),
        heard,
        muted_before=True,
    ),
    "mute a critical alert": Tried("admin", lambda one: one.say("mute 8h"), muted, critical=True),
    "mute a critical alert by click": Tried(
        "admin", lambda one: one.click("mute"), muted, critical=True
    ),
    # Cards have none of these, and a click can be made up.
    "revert": Tried(None, lambda one: one.click("ticket", target="github_reverts"), never),
    "revert by name": Tried(None, lambda one: one.click("revert", change="abc123"), never),
    "answer elsewhere": Tried(None, lambda one: one.click("ticket", target="msteams"), never),
    "change the rules": Tried(None, lambda one: one.click("rules", rules=[]), never),
    "delete": Tried(None, lambda one: one.click("delete"), never),
}


@pytest.fixture
def attempt(open_teams: Callable[..., Teams]) -> Callable[[str, Tried], Try]:
    login = {f"{role}s": [name] for role, name in NAMED.items()}
    teams = open_teams(login=login, people={"members": "none", "guests": "admin"}, **TRACKERS)
    teams.chats.members.update({account_id(who): told for who, told in ACCOUNTS.items()})

    def made(who: str, act: Tried) -> Try:
        found, root = teams.answered(severity="critical" if act.critical else "error")
        if act.muted_before:
            until = datetime.now(UTC) + timedelta(hours=1)
            Mutes(teams.store.engine).mute(found.alert.fingerprint, until, "Boss", title="x")
        return Try(teams, who, found, root)

    return made


@pytest.mark.parametrize("name", ACTS)
@pytest.mark.parametrize("who", NAMED)
def test_each_role_does_what_it_takes_and_no_more(
    attempt: Callable[[str, Tried], Try], who: Role, name: str
) -> None:
    act = ACTS[name]
    one = attempt(who, act)
    before = one.state()
    said = act.do(one)
    if act.takes is None:
        assert one.state() == before
    elif ROLES.index(who) >= ROLES.index(act.takes):
        assert act.done(one, said), said
    else:
        # Muting takes a responder, before it is asked how critical the alert is.
        assert re.search(rf"This takes the role (responder|{act.takes}); yours is {who}\.", said)
        assert one.state() == before


@pytest.mark.parametrize("who", REFUSALS)
def test_whoever_has_no_role_hears_why_and_changes_nothing(
    attempt: Callable[[str, Tried], Try], who: str
) -> None:
    for name, act in ACTS.items():
        one = attempt(who, act)
        before = one.state()
        said = act.do(one)
        assert REFUSALS[who] in said or "of another version" in said, name
        assert FOUND not in said, name
        assert one.state() == before, name


@pytest.mark.parametrize("who", NAMED)
def test_in_another_tenant_nobody_has_a_role(
    attempt: Callable[[str, Tried], Try], who: Role
) -> None:
    """A shared channel tells the sender's tenant, whoever the account looks like."""
    act = ACTS["digest"]
    one = attempt(who, act)
    before = one.state()
    elsewhere = partial(one.teams.activity, channelData={"tenant": {"id": "other"}})
    acts = ({"text": "<at>Bot</at> investigate checkout"}, {"text": "<at>Bot</at> handover"})
    posted = len(one.teams.chats.messages)
    for more in acts:
        sent = one.teams.send(elsewhere(**{"from": {"id": account_id(who)}}, **more))
        assert sent.json()["outcome"] == "ignored"
    assert one.state() == before
    assert len(one.teams.chats.messages) == posted
