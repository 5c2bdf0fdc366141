"""What vendors send: signed alerts of four sources, as senders do that try again until they get
a success response.

Some come twice at once, some are replayed, some end before they begin, some come in storms, some
are forged.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import httpx

from faultline.loopback.bot_process import incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty
from tests.bot.intake.test_datadog_webhook import event as datadog_event
from tests.bot.intake.test_sentry_webhook import issue_webhook

SECRET = "chaos-secret"
PATIENCE_S = 5.0
"""PagerDuty waits so long for an answer (developer.pagerduty.com, "Webhooks overview")."""
AGAIN_S = (0.2, 2.0)
BASE = "https://acme.pagerduty.com"
WORDS = (
    *(
        "anvil",
        "basket",
        "birch",
        "cache",
        "cedar",
        "delta",
        "disk",
        "edge",
        "ember",
        "fleet",
        "flint",
        "gate",
        "grove",
    ),
    *(
        "harbor",
        "heap",
        "index",
        "inlet",
        "journal",
        "juniper",
        "kernel",
        "ledger",
        "mesh",
        "node",
        "orders",
        "pool",
    ),
    *("queue", "ring", "search", "tenant", "upload", "vault", "wallet", "yard", "zone"),
)


class Shape(StrEnum):
    """In which way an alert is sent."""

    PLAIN = "once"
    TWICE = "twice at once"
    REPLAYED = "replayed later"
    BETWEEN = "acknowledged in between"
    ENDED_FIRST = "its end before its beginning"
    STORM = "in a storm"
    FORGED = "with a wrong signature"
    MISSHAPEN = "with a body that is none"


SENT_AGAIN = (Shape.TWICE, Shape.REPLAYED)
REFUSED = (Shape.FORGED, Shape.MISSHAPEN)


@dataclass(frozen=True)
class Delivery:
    """One webhook, the same each time it is sent."""

    path: str
    body: bytes
    headers: dict[str, str]


@dataclass
class Sent:
    """One alert: what its sender knows of it."""

    number: int
    source: str
    service: str
    title: str
    shape: Shape
    sent_at: float = 0.0
    incident: str | None = None
    tries: int = 0
    refused: int = 0
    """Tries that got no answer, or a 5xx, and were made again."""
    outcomes: list[str] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    investigations: set[str] = field(default_factory=set)
    acknowledged_at: float | None = None
    """When a delivery that starts something was first acknowledged."""
    gave_up: bool = False


class Senders:
    """Sends what it is given, to one of the web processes, as through a load balancer."""

    def __init__(self, urls: Sequence[str], pagerduty: LoopbackPagerDuty, seed: str) -> None:
        self.sent: list[Sent] = []
        self.stop = threading.Event()
        self.urls = urls
        self._pagerduty = pagerduty
        self._dice = random.Random(f"{seed} senders")
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="sender")
        self._client = httpx.Client(
            timeout=PATIENCE_S, verify=False
        )  # a context for TLS costs more than the request

    def send(
        self, number: int, shape: Shape, source: str = "", service: str = "", word: str = ""
    ) -> Sent:
        """Begin to send an alert; in the background."""
        dice = self._dice
        source = (
            "pagerduty"
            if shape in (Shape.BETWEEN, Shape.ENDED_FIRST)
            else source or dice.choice(sorted(SOURCES))
        )
        title = f"{word or ' '.join(dice.sample(WORDS, 3))} fails {number}"
        sent_alert = Sent(
            number, source, service or f"svc-{number:04d}", title, shape, time.monotonic()
        )
        if source == "pagerduty":
            sent_alert.incident = f"P{number:05d}"
            if shape not in REFUSED:
                self._pagerduty.open_incident(sent_alert.incident, title, sent_alert.service)
        self.sent.append(sent_alert)
        self._pool.submit(self._send, sent_alert, random.Random(dice.random()))
        return sent_alert

    def finish(self, within_s: float) -> None:
        """Wait until every delivery was answered, or give up."""
        waiter = threading.Thread(target=self._pool.shutdown, daemon=True)
        waiter.start()
        waiter.join(within_s)
        self.stop.set()
        waiter.join(30)
        self._client.close()

    def _send(self, sent_alert: Sent, dice: random.Random) -> None:
        at = datetime.now(UTC)
        start = SOURCES[sent_alert.source](sent_alert, at, "start")
        if sent_alert.shape in REFUSED:
            self._deliver(sent_alert, _spoiled(start, sent_alert.shape))
        elif sent_alert.shape is Shape.TWICE:
            with ThreadPoolExecutor(3) as together:
                list(together.map(lambda _: self._deliver(sent_alert, start), range(3)))
        elif sent_alert.shape is Shape.REPLAYED:
            self._deliver(sent_alert, start)
            self.stop.wait(dice.uniform(0.5, 8))
            self._deliver(sent_alert, start)
        elif sent_alert.shape is Shape.BETWEEN:
            acknowledged = _pagerduty(
                sent_alert, at + timedelta(seconds=1), "incident.acknowledged"
            )
            with ThreadPoolExecutor(2) as together:
                list(together.map(lambda d: self._deliver(sent_alert, d), [acknowledged, start]))
        elif sent_alert.shape is Shape.ENDED_FIRST:
            self._deliver(
                sent_alert,
                _pagerduty(sent_alert, at + timedelta(seconds=2), "incident.resolved"),
                starts=False,
            )
            self._deliver(sent_alert, start)
        else:
            self._deliver(sent_alert, start)

    def _deliver(self, sent_alert: Sent, delivery: Delivery, *, starts: bool = True) -> None:
        """Again and again until there is an answer that is no 5xx."""
        wait, longest = AGAIN_S
        while not self.stop.is_set():
            sent_alert.tries += 1
            url = self.urls[sent_alert.tries % len(self.urls)]
            try:
                answer = self._client.post(
                    url + delivery.path, content=delivery.body, headers=delivery.headers
                )
            except httpx.TransportError:
                sent_alert.refused += 1
            else:
                if answer.status_code < 500:
                    _note(sent_alert, answer, starts=starts)
                    return
                sent_alert.refused += 1
            self.stop.wait(wait)
            wait = min(2 * wait, longest)
        sent_alert.gave_up = True


def _note(sent_alert: Sent, answer: httpx.Response, *, starts: bool) -> None:
    sent_alert.statuses.append(answer.status_code)
    if answer.status_code != 202:
        return
    body = answer.json()
    sent_alert.outcomes.append(body["outcome"])
    if body.get("investigation_id"):
        sent_alert.investigations.add(body["investigation_id"])
    if starts and body["outcome"] != "ignored" and sent_alert.acknowledged_at is None:
        sent_alert.acknowledged_at = time.monotonic()


def _spoiled(delivery: Delivery, shape: Shape) -> Delivery:
    """Forged: signed with another's secret. Misshapen: genuine, and no alert."""
    if shape is Shape.FORGED:
        spoiled = {k: f"{v[:-4]}0000" if k in SIGNED_IN else v for k, v in delivery.headers.items()}
        return Delivery(delivery.path, delivery.body, spoiled)
    body, headers = signed_webhook(SECRET, {"event_type": 7, "data": [1, 2]})
    return Delivery("/webhooks/pagerduty", body, headers)


SIGNED_IN = ("x-pagerduty-signature", "authorization", "sentry-hook-signature")


def _pagerduty(sent_alert: Sent, at: datetime, kind: str) -> Delivery:
    kind = "incident.triggered" if kind == "start" else kind
    event = incident_event(
        incident=sent_alert.incident or "",
        title=sent_alert.title,
        service=sent_alert.service,
        at=at,
        kind=kind,
        base=BASE,
    )
    event |= {"id": f"event-{sent_alert.number}-{kind}"}
    return Delivery("/webhooks/pagerduty", *signed_webhook(SECRET, event))


def _alertmanager(sent_alert: Sent, at: datetime, _: str) -> Delivery:
    labels = {"alertname": sent_alert.title, "service": sent_alert.service, "severity": "warning"}
    alert = {"status": "firing", "labels": labels, "annotations": {}, "startsAt": at.isoformat()}
    body = {"version": "4", "groupKey": sent_alert.title, "status": "firing", "alerts": [alert]}
    return Delivery(
        "/webhooks/alertmanager", json.dumps(body).encode(), {"authorization": f"Bearer {SECRET}"}
    )


def _datadog(sent_alert: Sent, at: datetime, _: str) -> Delivery:
    alert = {
        "id": str(sent_alert.number),
        "cycle_key": f"cycle-{sent_alert.number}",
        "aggreg_key": f"group-{sent_alert.number}",
    }
    alert |= {"title": sent_alert.title, "scope": f"service:{sent_alert.service}", "priority": "P3"}
    event: dict[str, Any] = {
        "id": f"event-{sent_alert.number}",
        "title": sent_alert.title,
        "date": str(round(at.timestamp() * 1000)),
    }
    event |= {
        "service": sent_alert.service,
        "tags": f"service:{sent_alert.service}",
        "hostname": f"node-{sent_alert.number}",
    }
    body = datadog_event(**event, alert=alert)
    return Delivery(
        "/webhooks/datadog", json.dumps(body).encode(), {"authorization": f"Bearer {SECRET}"}
    )


def _sentry(sent_alert: Sent, at: datetime, _: str) -> Delivery:
    timestamp = at.isoformat()
    issue = {
        "id": str(sent_alert.number),
        "title": sent_alert.title,
        "firstSeen": timestamp,
        "lastSeen": timestamp,
    }
    body = json.dumps(
        issue_webhook(**issue, project={"slug": sent_alert.service}, level="error")
    ).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"sentry-hook-resource": "issue", "sentry-hook-timestamp": str(int(time.time()))}
    headers |= {"request-id": f"sentry-{sent_alert.number}", "sentry-hook-signature": signature}
    return Delivery("/webhooks/sentry", body, headers)


SOURCES: dict[str, Callable[[Sent, datetime, str], Delivery]] = {
    "pagerduty": _pagerduty,
    "alertmanager": _alertmanager,
    "datadog": _datadog,
    "sentry": _sentry,
}
