"""A real server with our routes, a real store behind it, and senders that sign as the vendors
do."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette

from faultline.bot.intake.accepting import Accept, IntakeLimits, store_accept
from faultline.bot.intake.alert_source import AlertSource, WebhookSource
from faultline.bot.intake.alert_sources import built_in_sources
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.routes import intake_routes
from faultline.bot.intake.sources.cloudwatch import cloudwatch_source
from faultline.bot.intake.sources.sns_messages import Fetch, fetch_https
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.store import Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.alertmanager import AlertmanagerSettings
from faultline.connectors.vendors.pagerduty import PagerDutySettings
from faultline.connectors.vendors.slack import SlackSettings
from tests.databases import store_engine

PD_SECRETS = ("pd-old-secret", "pd-new-secret")
SLACK_SECRETS = ("slack-old-secret", "slack-new-secret")
AM_TOKENS = ("s3cret", "prom:passw0rd")
WATCHED = "C0ALERTS"


PATIENT_S = 60.0


def secrets(values: tuple[str, ...]) -> tuple[SecretStr, ...]:
    return tuple(SecretStr(value) for value in values)


@pytest.fixture
def settings() -> Settings:
    return Settings(
        alerts=AlertSettings(oldest_days=36_500),
        pagerduty=PagerDutySettings(webhook_secrets=secrets(PD_SECRETS)),
        alertmanager=AlertmanagerSettings(webhook_tokens=secrets(AM_TOKENS)),
        slack=SlackSettings(
            bot_token=SecretStr("xoxb-1"),
            signing_secrets=secrets(SLACK_SECRETS),
            alert_channels=(WATCHED,),
            api_url="http://127.0.0.1:9/api",
        ),
        services={
            "checkout": ServiceSettings(aliases=("basket",)),
            "payments-api": ServiceSettings(),
        },
    )


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    engine = store_engine(f"sqlite:///{tmp_path}/intake.sqlite")
    yield Store(engine)
    engine.dispose()


def sources_with(fetch_sns: Fetch, *, patient: bool) -> list[AlertSource]:
    """Faultline's own alert sources, with an SNS that is reached in this way."""
    sources = {source.name: source for source in built_in_sources()}
    sources["cloudwatch"] = cloudwatch_source(fetch_sns)
    return [
        replace(source, answer_within_s=None)
        if patient and isinstance(source, WebhookSource)
        else source
        for source in sources.values()
    ]


@contextmanager
def serving(
    settings: Settings,
    accept: Accept,
    limits: IntakeLimits | None = None,
    fetch_sns: Fetch = fetch_https,
    message_router: MessageRouter | None = None,
    sources: Sequence[AlertSource] | None = None,
    **more: Any,
) -> Iterator[str]:
    """The routes behind uvicorn on a free loopback port; gives the base address. Without `limits`
    they wait for a busy machine longer than a vendor would."""
    patient = replace(
        IntakeLimits(),
        max_body_bytes=settings.server.max_body_bytes,
        accept_within_s=PATIENT_S,
        group_within_s=PATIENT_S,
    )
    app = Starlette(
        routes=intake_routes(
            settings,
            accept,
            sources=sources_with(fetch_sns, patient=limits is None) if sources is None else sources,
            limits=limits or patient,
            message_router=message_router,
            **more,
        )
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="warning", lifespan="off", ws="none"
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + PATIENT_S
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(timeout=10)


@dataclass
class Senders:
    """The vendors' side: real requests, really signed."""

    base: str
    store: Store

    client: httpx.Client = field(
        default_factory=lambda: httpx.Client(timeout=2 * PATIENT_S, trust_env=False, verify=False)
    )

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        return self.client.post(self.base + path, content=body, headers=headers)

    def pagerduty(
        self,
        payload: Any,
        *,
        secret: str = PD_SECRETS[0],
        webhook_id: str | None = None,
        extra: str = "",
    ) -> httpx.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "x-pagerduty-signature": f"{extra}v1={digest}",
            "content-type": "application/json",
        }
        if webhook_id:
            headers["x-webhook-id"] = webhook_id
        return self.post("/webhooks/pagerduty", body, headers)

    def alertmanager(self, payload: Any, *, authorization: str = "Bearer s3cret") -> httpx.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.post("/webhooks/alertmanager", body, {"authorization": authorization})

    def slack(
        self,
        payload: Any,
        *,
        secret: str = SLACK_SECRETS[0],
        at: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        return self.post("/slack/events", body, slack_headers(body, secret, at) | (headers or {}))


def slack_headers(body: bytes, secret: str, at: float | None = None) -> dict[str, str]:
    stamp = str(int(time.time() if at is None else at))
    digest = hmac.new(secret.encode(), f"v0:{stamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={digest}",
        "content-type": "application/json",
    }


@pytest.fixture
def serve(settings: Settings) -> Iterator[Callable[..., Senders]]:
    """Start the routes over a store; settings and limits may be changed."""
    open_servers = []
    opened = []

    def start(
        store: Store,
        changed: Settings | None = None,
        limits: IntakeLimits | None = None,
        fetch_sns: Fetch = fetch_https,
    ) -> Senders:
        context = serving(changed or settings, store_accept(store), limits, fetch_sns)
        base = context.__enter__()
        open_servers.append(context)
        opened.append(Senders(base, store))
        return opened[-1]

    yield start
    for senders in opened:
        senders.client.close()
    for context in reversed(open_servers):
        context.__exit__(None, None, None)


@pytest.fixture
def bot(serve: Callable[..., Senders], sqlite_store: Store) -> Senders:
    """Every alert source, over an embedded store."""
    return serve(sqlite_store)


def pagerduty_event(
    kind: str = "incident.triggered", *, event: str = "E1", incident: str = "PABC123"
) -> Any:
    return {
        "event": {
            "id": event,
            "event_type": kind,
            "occurred_at": "2026-11-20T10:00:05.250Z",
            "data": {
                "id": incident,
                "incident_key": f"key-{incident}",
                "html_url": f"https://acme.pagerduty.com/incidents/{incident}",
                "title": "Checkout errors",
                "urgency": "high",
                "created_at": "2026-11-20T10:00:00Z",
                "service": {"id": "PSVC1", "summary": "Basket"},
            },
        }
    }


def alertmanager_group(*alerts: dict[str, Any], key: str = "{}:{alertname='A'}") -> dict[str, Any]:
    return {"version": "4", "status": "firing", "groupKey": key, "alerts": list(alerts)}


def alertmanager_alert(
    name: str = "HighErrorRate", *, status: str = "firing", number: int = 1
) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": name, "service": "checkout", "severity": "critical"},
        "annotations": {"summary": "5xx ratio 50 %"},
        "startsAt": f"2026-11-20T10:00:{number % 60:02d}.123456789Z",
        "generatorURL": "http://prometheus.example/graph?g0.expr=up",
        "fingerprint": f"{number:016x}",
    }


def slack_event(event: dict[str, Any], *, event_id: str = "Ev1") -> dict[str, Any]:
    return {
        "type": "event_callback",
        "team_id": "T1",
        "api_app_id": "A0FAULT",
        "event_id": event_id,
        "event_time": 1763690000,
        "authorizations": [{"team_id": "T1", "user_id": "U0BOT", "is_bot": True}],
        "event": event,
    }


def mention(text: str, *, ts: str = "1763690000.000100", **more: Any) -> dict[str, Any]:
    return {
        "type": "app_mention",
        "user": "U1",
        "text": f"<@U0BOT> {text}",
        "ts": ts,
        "channel": "C9",
        **more,
    }


def bot_message(**more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "subtype": "bot_message",
        "bot_id": "B0AM",
        "text": "",
        "channel": WATCHED,
        "ts": "1763690000.000100",
        "attachments": [
            {"title": "[FIRING:1] HighErrorRate checkout (critical)", "color": "danger"}
        ],
        **more,
    }


def only(store: Store) -> Any:
    """The one investigation there is."""
    (investigation,) = store.latest()
    return investigation


async def until(condition: Callable[[], bool], seconds: float = PATIENT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)
