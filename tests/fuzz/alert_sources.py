"""Everything that strangers can send: each webhook, Slack's events and forms, signed wrongly and
rightly.

An input with a wrong signature that is taken is a wrong accept; a signed and broken one must be
answered below 500.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from joserfc import jwt
from starlette.applications import Starlette
from starlette.routing import BaseRoute

from faultline.bot.conversation.slack.listeners import SlackFace
from faultline.bot.intake.routes import intake_routes
from faultline.bot.processes.check import all_checks
from faultline.bot.settings import Settings
from faultline.bot.store.store import Accepted, Arrival, Store
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.fake_chats import FakeChats
from tests.bot.intake import sns_sender
from tests.bot.intake.conftest import (
    WATCHED,
    alertmanager_alert,
    alertmanager_group,
    bot_message,
    mention,
    pagerduty_event,
    slack_event,
    sources_with,
)
from tests.bot.intake.teams_on_loopback import APP, BOT, HOME, ISSUER, PEOPLE, first_key, published
from tests.bot.intake.test_azure_monitor_webhook import notification as azure_notification
from tests.bot.intake.test_datadog_webhook import event as datadog_event
from tests.bot.intake.test_incident_webhooks import WHSEC, rootly_headers, signed_headers
from tests.bot.intake.test_incident_webhooks import alert_event as rootly_alert
from tests.bot.intake.test_incident_webhooks import created as incident_created
from tests.bot.intake.test_incident_webhooks import event as rootly_event
from tests.bot.intake.test_incident_webhooks import moved as incident_moved
from tests.bot.intake.test_sentry_webhook import issue_webhook
from tests.databases import store_engine
from tests.fuzz.counting import Answer, ServerFault, Target, Try
from tests.fuzz.mutations import HOSTILE_TEXT, as_body, changed, damaged

SECRET, TOKEN = "a-secret-that-nobody-guesses", "a-token-that-nobody-guesses"
SNS_PATH = "/webhooks/sns"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "webhooks"
Sign = Callable[[bytes], dict[str, str]]


@dataclass(frozen=True)
class FuzzedSource:
    """One path of an alert source: the path, good bodies, and what proves the sender of a body."""

    name: str
    path: str
    samples: tuple[Any, ...]
    sign: Sign
    signs_body: bool = True
    """Whether the proof is bound to the body; a token is not."""
    form: bool = False


def _hmac(prefix: str, header: str, body: bytes) -> dict[str, str]:
    return {header: prefix + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}


def _slack(body: bytes) -> dict[str, str]:
    stamp = str(int(time.time()))
    digest = hmac.new(SECRET.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={digest}"}


def _incident_io(body: bytes) -> dict[str, str]:
    return signed_headers(body, at=time.time())


def _rootly(body: bytes) -> dict[str, str]:
    return rootly_headers(body, SECRET)


def _token(body: bytes) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKEN}"}


@cache
def teams_service() -> FakeChats:
    """The Bot Framework, which publishes its keys."""
    fake = FakeChats(members=dict(PEOPLE), keys=[published(first_key(), "msteams")])
    fake.url, _ = serve_in_thread(fake.app)
    return fake


def teams_message() -> dict[str, Any]:
    return {
        "type": "message",
        "id": "1763690000000",
        "channelId": "msteams",
        "serviceUrl": "https://smba.trafficmanager.net/teams/",
        "from": {"id": "29:ann"},
        "recipient": {"id": BOT},
        "conversation": {"id": "19:a@thread.tacv2;messageid=1", "conversationType": "channel"},
        "channelData": {"tenant": {"id": HOME}},
        "entities": [{"type": "mention", "mentioned": {"id": BOT}}],
        "text": "<at>Bot</at> investigate checkout errors",
    }


def teams_click() -> dict[str, Any]:
    action = {"verb": "mute", "data": {"investigation": "20261121-100000-abcdef"}}
    clicked = {"type": "invoke", "name": "adaptiveCard/action", "value": {"action": action}}
    return teams_message() | clicked


def _teams(body: bytes) -> dict[str, str]:
    """A token for the service that the body names."""
    try:
        service = json.loads(body)["serviceUrl"]
    except (ValueError, LookupError, TypeError, RecursionError):
        service = None
    service = service if isinstance(service, str) and service else "x"
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": APP, "exp": now + 3600, "serviceurl": service}
    token = jwt.encode({"alg": "RS256", "kid": first_key().kid}, claims, first_key())
    return {"authorization": f"Bearer {token}"}


def _shared(vendor: str) -> list[Any]:
    """The vendor's own samples, where they lie beside the project."""
    found = []
    for file in sorted((SHARED / vendor).glob("*.json"))[:20]:
        content = json.loads(file.read_text())
        found.append(content.get("body", content) if isinstance(content, dict) else content)
    return found


def _described_alert() -> dict[str, Any]:
    """An alert of Prometheus whose summary is a sentence."""
    annotations = {"summary": "Half of the requests to checkout fail"}
    return alertmanager_alert() | {"annotations": annotations}


def fuzzed_sources() -> list[FuzzedSource]:
    """All of them."""
    clicked = {
        "type": "block_actions",
        "trigger_id": "1.2",
        "user": {"id": "U1", "name": "ann"},
        "team": {"id": "T1"},
        "channel": {"id": "C1"},
        "message": {"ts": "1763690000.000100"},
        "actions": [
            {
                "type": "button",
                "action_id": "faultline_right",
                "block_id": "b",
                "value": "20261121-100000-abcdef",
            }
        ],
    }
    sent = {
        "type": "view_submission",
        "trigger_id": "1.2",
        "user": {"id": "U1"},
        "team": {"id": "T1"},
        "view": {
            "id": "V1",
            "type": "modal",
            "callback_id": "faultline_mute_form",
            "private_metadata": "x C1 1.2",
            "state": {"values": {}},
        },
    }
    events = (
        slack_event(bot_message()),
        slack_event(mention("investigate checkout")),
        slack_event({**mention("why?"), "type": "message", "channel_type": "im", "channel": "D1"}),
    )
    return [
        FuzzedSource(
            "pagerduty",
            "/webhooks/pagerduty",
            (pagerduty_event(), *_shared("pagerduty")),
            partial(_hmac, "v1=", "x-pagerduty-signature"),
        ),
        FuzzedSource(
            "sentry",
            "/webhooks/sentry",
            (issue_webhook(), *_shared("sentry")),
            partial(_hmac, "", "sentry-hook-signature"),
        ),
        FuzzedSource(
            "datadog",
            "/webhooks/datadog",
            (datadog_event(), *_shared("datadog")),
            _token,
            signs_body=False,
        ),
        FuzzedSource(
            "alertmanager",
            "/webhooks/alertmanager",
            (
                alertmanager_group(_described_alert(), alertmanager_alert("B")),
                *_shared("alertmanager"),
                *_shared("grafana"),
            ),
            _token,
            signs_body=False,
        ),
        FuzzedSource(
            "azure_monitor",
            "/webhooks/azure_monitor",
            (azure_notification(), azure_notification("Resolved")),
            _token,
            signs_body=False,
        ),
        FuzzedSource(
            "incident_io",
            "/webhooks/incident_io",
            (incident_created(), incident_moved("live", "closed")),
            _incident_io,
        ),
        FuzzedSource("rootly", "/webhooks/rootly", (rootly_event(), rootly_alert()), _rootly),
        FuzzedSource(
            "webhook",
            "/webhooks/webhook",
            ({"name": "a", "event_id": "1", "event_value": "1", "host": "db"},),
            _token,
            signs_body=False,
        ),
        FuzzedSource(
            "msteams",
            "/webhooks/msteams",
            (teams_message(), teams_click()),
            _teams,
            signs_body=False,
        ),
        FuzzedSource("slack events", "/slack/events", (*events, *_shared("slack")), _slack),
        FuzzedSource("slack forms", "/slack/interactivity", (clicked, sent), _slack, form=True),
    ]


def known_settings() -> Settings:
    """Every alert source is configured."""
    return Settings.model_validate(
        {
            "alerts": {"oldest_days": 36_500},
            "retention": {"deliveries_days": 36_500},
            "pagerduty": {"webhook_secrets": [SECRET]},
            "sentry": {"webhook_secrets": [SECRET]},
            "datadog": {"webhook_tokens": [TOKEN]},
            "alertmanager": {"webhook_tokens": [TOKEN]},
            "azure_monitor": {"webhook_tokens": [TOKEN]},
            "incident_io": {"webhook_secrets": [WHSEC]},
            "rootly": {"webhook_secrets": [SECRET]},
            "webhook": {"tokens": [TOKEN], "preset": "zabbix"},
            "msteams": {
                **teams_service().sections()["msteams"],
                "tenant_id": HOME,
                "openid_url": f"{teams_service().url}/openid",
            },
            "aws": {"sns_topics": [sns_sender.TOPIC]},
            "slack": {
                "bot_token": "xoxb-1",
                "signing_secrets": [SECRET],
                "alert_channels": [WATCHED],
                "api_url": "http://127.0.0.1:9/api",
            },
            "services": {"checkout": {"aliases": ["basket"]}},
        }
    )


class Bot:
    """The routes in this process, and what they took."""

    def __init__(self, scratch: Path) -> None:
        self.taken: list[Arrival] = []
        self._runner = asyncio.Runner()
        scratch.mkdir(parents=True, exist_ok=True)
        self._engine = store_engine(f"sqlite:///{scratch}/fuzz.sqlite")
        settings = known_settings()
        app = Starlette(routes=self._runner.run(self._routes(settings)))
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://bot")

    async def _routes(self, settings: Settings) -> list[BaseRoute]:
        """Inside the loop, which Slack's client binds itself to."""
        face = SlackFace(settings, Store(self._engine), _no_case, all_checks)
        return intake_routes(
            settings,
            self._accept,
            sources=sources_with(self._certificate, patient=True),
            slack_listeners=[lambda app, _: face.register(app)],
            store=Store(self._engine),
        )

    async def _accept(self, arrival: Arrival) -> Accepted:
        arrival.alert.model_dump_json()
        self.taken.append(arrival)
        return Accepted("started", "20261121-100000-abcdef")

    async def _certificate(self, url: str) -> bytes:
        return sns_sender.certificate()

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bool]:
        """Status, and whether an alert was taken. Raises ServerFault."""
        self.taken.clear()
        status = self._answered(path, body, headers).status_code
        if status >= 500:
            raise ServerFault(f"{path} answered {status}")
        return status, bool(self.taken)

    def answer(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        """The JSON of the answer."""
        return self._answered(path, body, headers).json()

    def said(self, path: str, body: bytes, headers: dict[str, str]) -> str:
        """The text of the answer, whatever it is."""
        self.taken.clear()
        return self._answered(path, body, headers).text

    def _answered(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        async def send() -> httpx.Response:
            return await self._client.post(path, content=body, headers=headers)

        return self._runner.run(send())

    def close(self) -> None:
        """End the loop."""
        self._runner.run(self._client.aclose())
        self._runner.close()
        self._engine.dispose()


async def _no_case(investigation_id: str) -> Path | None:
    return None


@contextmanager
def _opened(try_one: Callable[[Bot, random.Random], Answer], scratch: Path) -> Iterator[Try]:
    bot = Bot(scratch)
    try:
        yield partial(try_one, bot)
    finally:
        bot.close()


def _try_source(source: FuzzedSource, bot: Bot, rng: random.Random) -> Answer:
    good = rng.choice(source.samples)
    body = as_body(rng, changed(rng, good))
    if source.form:
        body = urlencode({"payload": body.decode("latin-1")}).encode()
        body = damaged(rng, body) if rng.random() < 0.2 else body
    headers = {
        "content-type": rng.choice(
            ("application/json", "application/x-www-form-urlencoded", "text/plain")
        )
    }
    if rng.random() < 0.5:  # genuine, and broken
        status, taken = bot.post(source.path, body, headers | source.sign(body))
        if status == 401:
            raise ServerFault("a genuine signature was refused")
        return "accepted" if taken else "refused"
    proof = _wrong(rng, source, body)
    status, taken = bot.post(source.path, body, headers | proof)
    return "wrong accept" if taken or status < 400 else "refused"


def _wrong(rng: random.Random, source: FuzzedSource, body: bytes) -> dict[str, str]:
    """Headers that prove nothing: none, damaged, of another body, old, empty, of another secret."""
    kind = rng.randrange(5)
    if kind == 0:
        return {}
    proof = source.sign(body)
    if kind == 1 and source.signs_body:
        return source.sign(body + b" ")
    if kind == 2 and "x-slack-request-timestamp" in proof:
        return proof | {
            "x-slack-request-timestamp": str(int(time.time()) + rng.choice((-400, 400, 10**9)))
        }
    name = rng.choice([n for n in proof if n != "x-slack-request-timestamp"])
    if kind == 3:
        text = rng.choice(HOSTILE_TEXT).encode("ascii", "ignore").decode()
        return proof | {name: "".join(c for c in text if c.isprintable())}
    given = proof[name]
    at = rng.randrange(len(given.rstrip()))
    other = rng.choice([c for c in "0123456789abcdefXYZ" if c != given[at]])
    wrong = given[:at] + other + given[at + 1 :]
    # a scheme's letters may be written large or small; that is no other proof
    return proof | {name: wrong if wrong.lower() != given.lower() else "Bearer no"}


def _try_sns(bot: Bot, rng: random.Random) -> Answer:
    good = sns_sender.envelope(
        changed(rng, sns_sender.alarm()) if rng.random() < 0.7 else sns_sender.alarm()
    )
    if rng.random() < 0.5:
        body = sns_sender.signed(good)
        status, taken = bot.post(SNS_PATH, body, {})
        if status == 401:
            raise ServerFault("a genuine signature was refused")
        return "accepted" if taken else "refused"
    signed = json.loads(sns_sender.signed(good))
    name = rng.choice(sorted(signed))
    before = signed[name]
    other = changed(rng, {"x": before})
    other = other.get("x") if isinstance(other, dict) else other
    signed[name] = rng.choice((other, f"{before} ", base64.b64encode(rng.randbytes(256)).decode()))
    same = signed[name] == before
    status, taken = bot.post(SNS_PATH, json.dumps(signed).encode(), {})
    return "wrong accept" if taken and not same and not _unsigned(name) else "refused"


def _unsigned(name: str) -> bool:
    """Fields that SNS does not sign: another certificate's address is refused, or leads to the same
    key."""
    return name in ("SigningCertURL", "UnsubscribeURL")


def targets() -> list[Target]:
    """One for each alert source."""
    found = [
        Target(f"webhook {source.name}", 1.0, partial(_opened, partial(_try_source, source)))
        for source in fuzzed_sources()
    ]
    return [*found, Target("webhook sns", 0.5, partial(_opened, _try_sns))]
