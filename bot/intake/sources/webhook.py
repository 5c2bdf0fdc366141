"""The generic webhook: JSON of any system, read with JMESPath expressions of the settings.

A bearer token or an HMAC-SHA256 of the body proves the sender before anything is parsed. A body is
taken whole or refused whole, with one line that names the expression and nothing that was sent.
Retries within five minutes are duplicates, as for Alertmanager.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from analysis.vocabulary import Alert, Link
from bot.intake.accepting import Ignored
from bot.intake.alert_source import (
    LARGE_BODY_BYTES,
    Found,
    Receive,
    Sender,
    WebhookRequest,
    WebhookSource,
)
from bot.intake.payload_fields import (
    LONG,
    as_labels,
    as_time,
    as_url,
    digest_of,
    filled,
    in_utc,
    one_line,
    plain,
)
from bot.intake.request_body import Refused
from bot.intake.service_names import catalogued
from bot.intake.signatures import (
    BadSignature,
    any_equal,
    hmac_sha256,
    usable,
    verify_token,
)
from bot.policy.values import Arrival, Delivery, ReplyTo
from bot.runtime.threads import in_thread
from bot.settings import Settings
from bot.settings.webhook import WebhookSettings
from connectors.json_mapping import searched, shallow_json, since_1970

SOURCE = "webhook"
MOST_ALERTS = 1_000
MOST_NAMES = 20
RETRY_SLOT_S = 300


@dataclass(frozen=True)
class _Body:
    """One alert of a body, and the settings that read it."""

    value: Any
    own: WebhookSettings

    def get(self, field: str) -> Any:
        """What the field's expression finds; None for nothing and for a macro that stands
        unfilled. Raises Refused with 400."""
        found = _search(self.own, field, self.value)
        return None if isinstance(found, str) and _unfilled(found) else found

    def line(self, field: str) -> str | None:
        """As one line. Raises Refused for what is neither text nor a number."""
        found = self.get(field)
        if isinstance(found, bool):
            return str(found).lower()
        if found is not None and not isinstance(found, (str, int, float)):
            raise _refused(self.own, field, "is neither text nor a number")
        return one_line(found) or None


def read_webhook(
    body: bytes, settings: Settings, own: WebhookSettings, *, sender: str, now: datetime
) -> list[Arrival] | Ignored:
    """The alerts of a body, in its order. Raises Refused with 400 or 413."""
    payload = _parsed(body)
    entries = payload if own.items is None else _search(own, "items", payload)
    entries = [entries] if own.items is None else entries
    if not isinstance(entries, list):
        raise _refused(own, "items", "is not a list")
    if len(entries) > MOST_ALERTS:
        raise Refused(413, f"more than {MOST_ALERTS} alerts in one body")
    read = [_arrival(_Body(one, own), settings, sender, now) for one in entries]
    taken = [one for one in read if one is not None]
    return taken or Ignored("no alert fires or ends")


def _arrival(body: _Body, settings: Settings, sender: str, now: datetime) -> Arrival | None:
    status = _status(body)
    if status is None:
        return None
    title = body.line("title")
    if not title:
        raise _refused(body.own, "title", "finds nothing")
    began = _began(body)
    service = catalogued(settings, *_names(body))
    environment = body.line("environment") or ""
    identity = body.line("id") or digest_of(title, service or "", environment)
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
    ordered = began if status == "firing" or began is None else began + timedelta(microseconds=1)
    return Arrival(alert, Delivery(SOURCE, delivery_id, ordered, occurrence), ReplyTo())


def _status(body: _Body) -> str | None:
    """`firing` or `resolved`; None for what is neither."""
    if body.own.expression("state") is None:
        return "firing"
    said = (body.line("state") or "").casefold()
    for status in ("firing", "resolved"):
        if said in getattr(body.own, status):
            return status
    if said in body.own.ignored:
        return None
    raise _refused(body.own, "state", "is in none of firing, resolved and ignored")


def _began(body: _Body) -> datetime | None:
    given = body.get("starts_at")
    if given is None:
        return None
    number = since_1970(given)
    time = as_time(given) or (in_utc(number) if number else None)
    if time is None:
        raise _refused(body.own, "starts_at", "is not a time")
    return time


def _names(body: _Body) -> list[str]:
    found = body.get("service")
    given = found[:MOST_NAMES] if isinstance(found, list) else [found]
    lines = [one_line(one) for one in given]
    return [line for line in lines if not _unfilled(line)]


def _labels(body: _Body) -> dict[str, str]:
    found = body.get("labels")
    if found is not None and not isinstance(found, dict):
        raise _refused(body.own, "labels", "is not an object")
    named = as_labels(found)
    return {name: value for name, value in named.items() if not _unfilled(value)}


def _unfilled(text: str) -> bool:
    """Whether it is empty, or a macro that Zabbix, Nagios or Splunk On-Call had no value for."""
    text = text.strip()
    if text in ("", "*UNKNOWN*"):
        return True
    return (text[0], text[-1]) in (("{", "}"), ("$", "$"), ("$", "}")) and " " not in text


def _search(own: WebhookSettings, field: str, value: Any) -> Any:
    expression = own.expression(field)
    if expression is None:
        return None
    try:
        return searched(expression, value)
    except ValueError as error:
        raise _refused(own, field, str(error)) from None


def _refused(own: WebhookSettings, field: str, problem: str) -> Refused:
    return Refused(400, f"{field} ({own.expression(field)}) {problem}")


def _parsed(body: bytes) -> Any:
    try:
        return shallow_json(body)
    except ValueError as error:
        raise Refused(400, f"the body {error}") from None


def _proves(own: WebhookSettings, request: WebhookRequest, body: bytes) -> bool:
    """Whether the request carries what this sender's settings ask for."""
    if own.signature_header is None:
        try:
            verify_token(SOURCE, request.headers.get("authorization"), own.tokens)
        except BadSignature:
            return False
        return True
    given = request.headers.get(own.signature_header.lower()) or ""
    expected = [own.signature_prefix + hmac_sha256(key, body) for key in usable(own.tokens)]
    return any_equal([given], expected)


def _receive(source: WebhookSource, settings: Settings) -> Receive:
    senders = source.senders(settings)
    names = [one.name for one in settings.instances(source.section)] or [""]
    named = list(zip(names, senders, strict=True))
    signed = any(_own(one).signature_header for one in senders)
    one_large = asyncio.Lock()

    def proven(request: WebhookRequest, body: bytes) -> tuple[str, Sender]:
        # Every one is tried: the time taken must not tell whose secret it was.
        fitting = [one for one in named if _proves(_own(one[1]), request, body)]
        if not fitting:
            raise BadSignature(SOURCE, "no token or signature fits")
        return fitting[0]

    async def receive(request: WebhookRequest) -> Found:
        # Without signatures, what a stranger sends is not even read.
        body = await request.read() if signed else b""
        name, sender = proven(request, body)
        body = body if signed else await request.read()
        read = partial(
            read_webhook, body, sender.settings, _own(sender), sender=name, now=datetime.now(UTC)
        )
        if len(body) <= LARGE_BODY_BYTES:
            return sender.placed(read())
        async with one_large:
            return sender.placed(await in_thread(read))

    return receive


def _own(sender: Sender) -> WebhookSettings:
    return sender.settings.webhook


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Generic webhooks",
    setup="Any system that posts JSON, by a preset or by fields named in the settings:",
    settings=WebhookSettings,
    required=("tokens",),
    receive=_receive,
)
