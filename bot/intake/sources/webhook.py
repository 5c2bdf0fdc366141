"""The generic webhook: JSON of any system, read with JMESPath expressions of the settings.

A bearer token or an HMAC-SHA256 of the body proves the sender before anything is parsed. A body is
taken whole or refused whole, with one line that names the expression and nothing that was sent.
Retries within five minutes are duplicates, as for Alertmanager.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import (
    LARGE_BODY_BYTES,
    Receive,
    RequestContent,
    Sender,
    WebhookRequest,
    WebhookSource,
)
from faultline.bot.intake.payload_fields import (
    LONG,
    as_labels,
    as_url,
    digest_of,
    filled,
    plain,
)
from faultline.bot.intake.service_names import catalogued
from faultline.bot.intake.signatures import (
    BadSignature,
    any_equal,
    hmac_sha256,
    usable,
    verify_token,
)
from faultline.bot.intake.sources.webhook_body import MappedItem, mapped_items, refused, unfilled
from faultline.bot.intake.sources.webhook_changes import read_changes
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.settings.webhook import WebhookSettings

SOURCE = "webhook"
RETRY_SLOT_S = 300


def read_webhook(
    body: bytes,
    settings: Settings,
    webhook_settings: WebhookSettings,
    *,
    sender: str,
    now: datetime,
) -> list[Arrival] | Ignored:
    """The alerts of a body, in its order. Raises Refused with 400 or 413."""
    items = mapped_items(body, webhook_settings)
    read = [_arrival(body, settings, sender, now) for body in items]
    taken = [arrival for arrival in read if arrival is not None]
    return taken or Ignored("no alert fires or ends")


def _arrival(body: MappedItem, settings: Settings, sender: str, now: datetime) -> Arrival | None:
    status = _status(body)
    if status is None:
        return None
    title = body.line("title")
    if not title:
        raise refused(body.webhook_settings, "title", "finds nothing")
    began = body.time("starts_at")
    service = catalogued(settings, *body.names("service"))
    environment = body.line("environment") or ""
    identity = body.line("id") or digest_of(title, service or "", environment)
    # Two senders may use the same ids.
    fingerprint = digest_of(sender, identity)[:16]
    labels = _labels(body) | filled({"environment": environment, "sender": sender})
    url = as_url(body.get("url"))
    alert = Alert(
        source=SOURCE,
        id=identity,
        title=title,
        started_at=began or now,
        status="firing" if status == "firing" else "resolved",
        service=service,
        severity=body.line("severity"),
        summary=plain(body.get("summary"), LONG) or None,
        labels=labels | {"fingerprint": fingerprint},
        links=(Link(title=sender or "Alert", url=url),) if url else (),
    )
    slot = str(int(now.timestamp() // RETRY_SLOT_S))
    occurrence = f"{fingerprint} {began.isoformat()}" if began else None
    delivery_id = digest_of(status, occurrence or fingerprint, slot)
    # An end sorts behind the beginning, whose time it carries.
    ordered = began if status == "firing" or began is None else began + timedelta(microseconds=1)
    return Arrival(alert, Delivery(SOURCE, delivery_id, ordered, occurrence), ReplyTo())


def _status(body: MappedItem) -> str | None:
    """`firing` or `resolved`; None for what is neither."""
    if body.webhook_settings.expression("state") is None:
        return "firing"
    line = (body.line("state") or "").casefold()
    for status in ("firing", "resolved"):
        if line in getattr(body.webhook_settings, status):
            return status
    if line in body.webhook_settings.ignored:
        return None
    raise refused(body.webhook_settings, "state", "is in none of firing, resolved and ignored")


def _labels(body: MappedItem) -> dict[str, str]:
    labels = body.get("labels")
    if labels is not None and not isinstance(labels, dict):
        raise refused(body.webhook_settings, "labels", "is not an object")
    named = as_labels(labels)
    return {name: value for name, value in named.items() if not unfilled(value)}


def _proves(webhook_settings: WebhookSettings, request: WebhookRequest, body: bytes) -> bool:
    """Whether the request carries what this sender's settings ask for."""
    if webhook_settings.signature_header is None:
        try:
            verify_token(SOURCE, request.headers.get("authorization"), webhook_settings.tokens)
        except BadSignature:
            return False
        return True
    header = request.headers.get(webhook_settings.signature_header.lower()) or ""
    expected = [
        webhook_settings.signature_prefix + hmac_sha256(key, body)
        for key in usable(webhook_settings.tokens)
    ]
    return any_equal([header], expected)


def _receive(source: WebhookSource, settings: Settings) -> Receive:
    senders = source.senders(settings)
    names = [table.instance.name for table in settings.instances(source.section)]
    named = list(zip(names, senders, strict=True))
    signed = any(_webhook_settings(sender).signature_header for sender in senders)
    large_body_lock = asyncio.Lock()

    def proven(request: WebhookRequest, body: bytes) -> tuple[str, Sender]:
        # Every one is tried: the time taken must not tell whose secret it was.
        fitting = [
            candidate
            for candidate in named
            if _proves(_webhook_settings(candidate[1]), request, body)
        ]
        if not fitting:
            raise BadSignature(SOURCE, "no token or signature fits")
        return fitting[0]

    async def receive(request: WebhookRequest) -> RequestContent:
        # Without signatures, what a stranger sends is not even read.
        body = await request.read() if signed else b""
        name, sender = proven(request, body)
        body = body if signed else await request.read()
        webhook_settings = _webhook_settings(sender)
        reader = read_changes if webhook_settings.maps_to == "changes" else read_webhook
        read = partial(
            reader, body, sender.settings, webhook_settings, sender=name, now=datetime.now(UTC)
        )
        if len(body) <= LARGE_BODY_BYTES:
            return sender.placed(read())
        # One at a time: parsing takes many times the body's size in memory.
        async with large_body_lock:
            return sender.placed(await in_thread(read))

    return receive


def _webhook_settings(sender: Sender) -> WebhookSettings:
    return sender.settings.webhook


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Generic webhooks",
    setup="Any system that posts JSON, by a preset or by fields named in the settings:",
    settings=WebhookSettings,
    required=("tokens",),
    receive=_receive,
)
