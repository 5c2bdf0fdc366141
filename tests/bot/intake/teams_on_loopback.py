"""Microsoft Teams on loopback, and the Bot Framework's side of a bot there: requests are signed for
real, by keys that a local OpenID provider publishes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    some_evidence,
)
from tests.bot.answer.targets.fake_chats import CHANNEL, FakeChats
from tests.bot.intake.conftest import PATIENT_S, serving, store_accept
from tests.rsa_keys import signing_key

HOME = "11111111-1111-1111-1111-111111111111"
APP, BOT = "an-app", "28:an-app"
ISSUER = "https://api.botframework.com"
PEOPLE = {
    "29:ann": {"name": "Ann", "aadObjectId": "ann-id", "userRole": "user", "tenantId": HOME},
    "29:gus": {"name": "Gus", "aadObjectId": "gus-id", "userRole": "guest", "tenantId": HOME},
    "29:ext": {
        "name": "Ext",
        "aadObjectId": "ext-id",
        "userRole": "user",
        "tenantId": HOME,
        "userPrincipalName": "ext_acme.com#EXT#@corp.example",
    },
    "29:foe": {"name": "Foe", "aadObjectId": "foe-id", "userRole": "user", "tenantId": "other"},
}


def first_key() -> RSAKey:
    """The key with which the Bot Framework signs until another is published."""
    return signing_key(0, "k1")


def published(key: RSAKey, *endorsements: str) -> dict[str, Any]:
    return {**key.as_dict(private=False), "use": "sig", "endorsements": list(endorsements)}


@dataclass
class Teams:
    """The Bot Framework's side: real requests, really signed."""

    chats: FakeChats
    store: Store
    settings: Settings
    base: str = ""

    def token(self, key: RSAKey | None = None, **changed: Any) -> str:
        key = key or first_key()
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": APP,
            "exp": now + 3600,
            "nbf": now,
            "serviceurl": f"{self.chats.url}/teams",
        }
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims | changed, key)

    def activity(self, **more: Any) -> dict[str, Any]:
        return {
            "type": "message",
            "id": f"17{time.time_ns()}",
            "channelId": "msteams",
            "serviceUrl": f"{self.chats.url}/teams",
            "from": {"id": "29:ann"},
            "recipient": {"id": BOT},
            "conversation": {"id": f"{CHANNEL};messageid=77", "conversationType": "channel"},
            "channelData": {"tenant": {"id": HOME}},
            "entities": [{"type": "mention", "mentioned": {"id": BOT}, "text": "<at>Bot</at>"}],
            **more,
        }

    def send(self, activity: Any, token: str | None = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {token or self.token()}"}
        url = f"{self.base}/webhooks/msteams"
        return httpx.post(url, json=activity, headers=headers, timeout=PATIENT_S)

    def say(self, text: str, who: str = "29:ann", **more: Any) -> str:
        """What the bot says to a mention; "" for nothing."""
        before = len(self.chats.messages)
        sender = {"from": {"id": who}, "text": f"<at>Bot</at> {text}"}
        sent = self.send(self.activity(**(sender | more)))
        assert sent.status_code == 200, sent.text
        said = self.chats.messages[before:]
        return json.dumps(said[0].versions[0]) if said else ""

    def click(self, verb: str, data: dict[str, Any], who: str = "29:ann", **more: Any) -> str:
        """The line for whoever clicked."""
        invoke = {
            "type": "invoke",
            "name": "adaptiveCard/action",
            "from": {"id": who},
            "value": {"action": {"type": "Action.Execute", "verb": verb, "data": data}},
        }
        answer = self.send(self.activity(**(invoke | more))).json()
        assert answer.get("type") == "application/vnd.microsoft.activity.message", answer
        return str(answer["value"])

    def answered(self, **alert: Any) -> tuple[StoredInvestigation, str]:
        """An investigation that was answered in the channel, and its message's id."""
        labels = {"fingerprint": f"alert-{time.time_ns()}"}
        accepted = self.store.accept(an_alert(labels=labels, **{"severity": "error"} | alert))
        name = accepted.investigation_id or ""
        self.store.start(name)
        headline = "payments v2 breaks checkout"
        self.store.finish(name, "done", verdict="cause_found", confidence=0.9, headline=headline)
        return self.reply(name)

    def reply(self, name: str) -> tuple[StoredInvestigation, str]:
        """Post the answer as a worker does."""
        found = self.store.get(name)
        assert found is not None
        answer = Answer(a_diagnosis(), a_report(), some_evidence(), [a_gap()], None)
        [target] = [one for one in declared_targets(self.settings) if one.name == "msteams"]
        client: Any = target
        posting = client.build(self.settings, self.store, owner="w")
        asyncio.run(posting.answer(Outcome(found, answer)))
        return found, self.chats.messages[-1].name

    def card(self) -> dict[str, Any]:
        """The newest card, as it is now."""
        return dict(self.chats.messages[-1].versions[-1]["attachments"][0]["content"])

    def titles(self) -> list[str]:
        return [one["title"] for one in self.card().get("actions", [])]


@pytest.fixture
def chats() -> Iterator[FakeChats]:
    fake = FakeChats(members=dict(PEOPLE), keys=[published(first_key(), "msteams", "webchat")])
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


@pytest.fixture
def open_teams(chats: FakeChats, sqlite_store: Store) -> Iterator[Callable[..., Teams]]:
    started: list[Any] = []

    def made(own: dict[str, Any] | None = None, **more: Any) -> Teams:
        section = chats.sections()["msteams"] | {"tenant_id": HOME, "team": None, **(own or {})}
        section["openid_url"] = f"{chats.url}/openid"
        given = {
            "msteams": section,
            "server": {"public_url": "https://faultline.example.com"},
        } | more
        settings = Settings.model_validate(given)
        opened = serving(settings, store_accept(sqlite_store), store=sqlite_store)
        started.append(opened)
        return Teams(chats, sqlite_store, settings, opened.__enter__())

    yield made
    for one in started:
        one.__exit__(None, None, None)


@pytest.fixture
def teams(open_teams: Callable[..., Teams]) -> Teams:
    return open_teams()
