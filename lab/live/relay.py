"""What stands between Prometheus and the bot: takes alerts as an Alertmanager does, and pages.

As an on-call service does with alerts that come together, it opens one incident for them, and sends
the bot one signed webhook. Alerts that fire while an incident is open belong to it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from faultline.analysis.errors import FaultlineError
from faultline.loopback.bot_process import incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty

ACCOUNT = "https://acme.pagerduty.com"


@dataclass(frozen=True)
class SentPage:
    """An incident that the bot has received."""

    incident: str
    title: str
    service: str
    labels: Mapping[str, str]
    sent_at: float
    investigation: str


class AlertRelay:
    """Pages for the first alert that fires after `arm`; `pages` holds what was sent."""

    def __init__(self, pagerduty: LoopbackPagerDuty, secret: str) -> None:
        self.bot_url = ""
        self.pages: queue.Queue[SentPage] = queue.Queue()
        self.firing: dict[str, float] = {}
        """Alerts that fire, by name and labels, and when Prometheus sent them last."""
        self._pagerduty = pagerduty
        self._secret = secret
        self._armed = False
        self._count = 0
        self._lock = threading.Lock()
        self.app = Starlette(routes=[Route("/api/v2/alerts", self._take, methods=["POST"])])

    def arm(self) -> None:
        """From now on the next alert opens an incident."""
        with self._lock:
            self._armed = True

    def disarm(self) -> None:
        """No alert opens an incident."""
        with self._lock:
            self._armed = False

    def resolve(self, page: SentPage) -> None:
        """The incident is over."""
        self._pagerduty.incidents[page.incident].status = "resolved"
        self._send(page.incident, page.title, page.service, "incident.resolved")

    async def _take(self, request: Request) -> JSONResponse:
        alerts = await request.json()
        # Handling an alert sends a webhook, which blocks.
        await run_in_threadpool(self._handle, alerts)
        return JSONResponse({})

    def _handle(self, alerts: list[dict[str, Any]]) -> None:
        now = datetime.now(UTC)
        for alert in alerts:
            key = str(sorted(alert["labels"].items()))
            # Prometheus sends an alert again and again, with an end that lies ahead while it fires.
            if datetime.fromisoformat(alert["endsAt"]) <= now:
                self.firing.pop(key, None)
                continue
            self.firing[key] = time.monotonic()
            # Two alerts may arrive at once, and only one of them opens the incident.
            with self._lock:
                first, self._armed = self._armed, False
            if first:
                self._page(alert)

    def _page(self, alert: Mapping[str, Any]) -> None:
        self._count += 1
        labels, incident = alert["labels"], f"PLIVE{self._count:04d}"
        title, service = alert["annotations"]["summary"], labels.get("service", "web")
        # PagerDuty gives the sender's details as text under `body`.
        body = {"details": {**labels, "source": alert.get("generatorURL", "")}}
        first = {"id": f"A{self._count}", "type": "alert", "summary": title, "body": body}
        self._pagerduty.open_incident(incident, title, service, alerts=[first])
        investigation = self._send(incident, title, service, "incident.triggered")
        page = SentPage(incident, title, service, labels, time.monotonic(), investigation)
        self.pages.put(page)

    def _send(self, incident: str, title: str, service: str, kind: str) -> str:
        """One webhook; gives the investigation that it started."""
        event = incident_event(
            incident=incident,
            title=title,
            service=service,
            at=datetime.now(UTC),
            kind=kind,
            base=ACCOUNT,
        )
        body, headers = signed_webhook(self._secret, event)
        url = f"{self.bot_url}/webhooks/pagerduty"
        answer = httpx.post(url, content=body, headers=headers, timeout=20)
        if answer.status_code != 202:
            raise FaultlineError(f"the bot refused a webhook ({answer.status_code})")
        return str(answer.json().get("investigation_id", ""))
