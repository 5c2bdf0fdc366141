"""Counts what comes in: each request, by its address and outcome, and each alert that was taken."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline.bot.policy.values import Accepted
from faultline.bot.runtime import measures, tracing
from faultline.bot.runtime.logs import note_investigation
from faultline.bot.runtime.measures import word

log = logging.getLogger("faultline.intake")

REFUSED: Mapping[int, str] = MappingProxyType(
    {
        400: "malformed",
        401: "signature",
        403: "signature",
        404: "not configured",
        405: "method",
        408: "too slow",
        413: "too large",
        429: "too many",
        503: "not taken",
    }
)
"""What a status says; `accepted` below 400, and another word of our own for the rest."""


ALARMING = ("not taken", "failed", "signature")
"""Outcomes on which alerts are set."""


ARRIVED = "faultline.arrived"
"""In a scope's `state`: the event loop's time, in seconds, at the end of the request's head."""


def waited_s(scope: Scope) -> float:
    """How long a request has waited since its head was read; 0 where that is not known."""
    arrived = scope.get("state", {}).get(ARRIVED)
    # The event loop's clock is this one.
    return 0.0 if arrived is None else max(0.0, time.monotonic() - arrived)


class ArrivalWatch:
    """Middleware around the whole application.

    `labels` holds the paths of the alert sources, which alone it looks at, and what metrics call
    requests there.
    """

    def __init__(self, app: ASGIApp, labels: Mapping[str, str]) -> None:
        self._app = app
        self._labels = labels

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and count."""
        source = self._labels.get(scope["path"]) if scope["type"] == "http" else None
        if source is None:
            await self._app(scope, receive, send)
            return
        # From the end of the head, so that the wait for the event loop counts too.
        status, began = 0, time.monotonic() - waited_s(scope)

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            measures.WEBHOOKS.labels(source, outcome_of(status)).inc()
            measures.ACKNOWLEDGED.labels(source).observe(time.monotonic() - began)


def outcome_of(status: int) -> str:
    """Of a request, by the status of its answer; 0 where there was none."""
    if status == 0:
        return "gone"
    if status < 400:
        return "accepted"
    return REFUSED.get(status, "failed" if status >= 500 else "refused")


def alert_taken(source: str, accepted: Accepted, took_s: float) -> None:
    """An alert is in the store. From here on the log of this request names the investigation."""
    measures.ALERTS.labels(word("source", source), accepted.outcome).inc()
    if accepted.investigation_id is not None:
        note_investigation(accepted.investigation_id)
        log.info("alert from %s: %s", source, accepted.outcome)
        # A duplicate's investigation has its span from the first delivery.
        if accepted.outcome != "duplicate":
            tracing.accept_span(
                accepted.investigation_id, word("source", source), accepted.outcome, took_s
            )
