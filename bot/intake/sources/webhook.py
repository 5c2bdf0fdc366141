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
from typing import Any, Literal, get_args

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.kinds.place_names import place_identity
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import (
    LARGE_BODY_BYTES,
    ChangeBatch,
    Receive,
    RequestContent,
    Sender,
    WebhookRequest,
    WebhookSource,
)
from faultline.bot.intake.payload_fields import (
    LONG,
    as_labels,
    as_time,
    as_url,
    digest_of,
    filled,
    in_utc,
    is_test_text,
    plain,
    single_line,
)
from faultline.bot.intake.reported_changes import AHEAD, ChangeKind
from faultline.bot.intake.service_names import catalogued, identified
from faultline.bot.intake.signatures import (
    BadSignature,
    Refused,
    any_equal,
    hmac_sha256,
    usable,
    verify_token,
)
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.settings.webhook import PRESETS, WebhookSettings
from faultline.bot.store.changes import LONGEST_FILES, LONGEST_ID, LONGEST_TEXT, ReportedChange
from faultline.connectors.shared.rows.expressions import searched, shallow_json, since_1970

# What the generic webhook's expressions find in a body. A refusal names the expression and nothing
# that was sent.

MOST_ITEMS = 1_000
MOST_NAMES = 20


@dataclass(frozen=True)
class MappedItem:
    """One alert or change of a body, and the settings that read it."""

    value: Any
    webhook_settings: WebhookSettings

    def get(self, field: str) -> Any:
        """What the field's expression finds; None for nothing and for a macro that stands
        unfilled. Raises Refused with 400."""
        search = _search(self.webhook_settings, field, self.value)
        return None if isinstance(search, str) and unfilled(search) else search

    def line(self, field: str) -> str | None:
        """As one line. Raises Refused for what is neither text nor a number."""
        field_value = self.get(field)
        # Written as in JSON, not as Python does.
        if isinstance(field_value, bool):
            return str(field_value).lower()
        if field_value is not None and not isinstance(field_value, (str, int, float)):
            raise refused(self.webhook_settings, field, "is neither text nor a number")
        return single_line(field_value) or None

    def time(self, field: str) -> datetime | None:
        """As a time in UTC. Raises Refused for what is none."""
        field_value = self.get(field)
        # Senders write 0 for a time that is not set.
        if field_value in (None, 0, "0"):
            return None
        number = since_1970(field_value)
        time = as_time(field_value) or (in_utc(number) if number else None)
        if time is None:
            raise refused(self.webhook_settings, field, "is not a time")
        return time

    def names(self, field: str) -> list[str]:
        """The names in a list, or the only one."""
        field_value = self.get(field)
        raw_names = field_value[:MOST_NAMES] if isinstance(field_value, list) else [field_value]
        lines = [single_line(raw_name) for raw_name in raw_names]
        return [line for line in lines if not unfilled(line)]

    def is_test(self) -> bool:
        """Whether somebody pressed the sender's test button, by its preset or by what it wrote."""
        expression = PRESETS.get(self.webhook_settings.preset or "", {}).get("test")
        if expression is not None and searched(expression, self.value):
            return True
        return any(is_test_text(plain(self.get(field), LONG)) for field in ("title", "summary"))

    def counts(self) -> bool:
        """Whether `only` lets it through: without that, everything counts."""
        return self.webhook_settings.expression("only") is None or bool(self.get("only"))


def mapped_items(body: bytes, webhook_settings: WebhookSettings) -> list[MappedItem]:
    """The items of a body that count, in its order. Raises Refused with 400 or 413."""
    payload = _parsed(body)
    entries = (
        payload if webhook_settings.items is None else _search(webhook_settings, "items", payload)
    )
    entries = [entries] if webhook_settings.items is None else entries
    if not isinstance(entries, list):
        raise refused(webhook_settings, "items", "is not a list")
    if len(entries) > MOST_ITEMS:
        raise Refused(413, f"more than {MOST_ITEMS} items in one body")
    items = [MappedItem(entry, webhook_settings) for entry in entries]
    return [mapped_item for mapped_item in items if mapped_item.counts()]


def unfilled(text: str) -> bool:
    """Whether it is empty, or a macro that Zabbix, Nagios or Splunk On-Call had no value for."""
    text = text.strip()
    if text in ("", "*UNKNOWN*"):
        return True
    # Macros such as `{HOST.NAME}`, `$HOSTNAME$` and `${...}`. A text with blanks is none.
    return (text[0], text[-1]) in (("{", "}"), ("$", "$"), ("$", "}")) and " " not in text


def refused(webhook_settings: WebhookSettings, field: str, problem: str) -> Refused:
    """For what an expression finds, or does not."""
    return Refused(400, f"{field} ({webhook_settings.expression(field)}) {problem}")


def _search(webhook_settings: WebhookSettings, field: str, value: Any) -> Any:
    expression = webhook_settings.expression(field)
    if expression is None:
        return None
    try:
        return searched(expression, value)
    except ValueError as error:
        raise refused(webhook_settings, field, str(error)) from None


def _parsed(body: bytes) -> Any:
    try:
        return shallow_json(body)
    except ValueError as error:
        raise Refused(400, f"the body {error}") from None


# The generic webhook's changes: deployments, flags and pushed configuration that any system posts.
#
# They are kept with those of `POST /changes` and become evidence of later investigations. One with
# a known id replaces the earlier one, so that a delivery which comes twice is one change.

KINDS = get_args(ChangeKind)
MOST_CHANGES = 100
MOST_FILES = 2_000


def read_changes(
    body: bytes,
    settings: Settings,
    webhook_settings: WebhookSettings,
    *,
    sender: str,
    now: datetime,
) -> ChangeBatch | Ignored:
    """The changes of a body, in its order. Raises Refused with 400 or 413."""
    items = mapped_items(body, webhook_settings)
    if len(items) > MOST_CHANGES:
        raise Refused(413, f"more than {MOST_CHANGES} changes in one body")
    if not items:
        return Ignored("no change counts")
    return ChangeBatch([_change(mapped_item, settings, sender, now) for mapped_item in items])


def _change(item: MappedItem, settings: Settings, sender: str, now: datetime) -> ReportedChange:
    service = catalogued(settings, *item.names("service"))
    title = plain(item.line("title"), LONGEST_TEXT)
    identity = item.line("id")
    for field, content in (("service", service), ("title", title), ("id", identity)):
        if not content:
            raise refused(item.webhook_settings, field, "finds nothing")
    at = item.time("starts_at") or now
    if at > now + AHEAD:
        raise refused(item.webhook_settings, "starts_at", "is in the future")
    environment = item.line("environment")
    line = (item.line("kind") or KINDS[0]).casefold()
    if line not in KINDS:
        raise refused(item.webhook_settings, "kind", f"is none of {', '.join(KINDS)}")
    # Equal ids of two senders are two changes. The stored id has a bound, and a digest is the same
    # each time, so a repeat is still recognised.
    stored_id = f"{sender or 'webhook'}/{identity}"
    if len(stored_id) > LONGEST_ID:
        stored_id = digest_of(sender, identity or "")
    return ReportedChange(
        id=stored_id,
        at=at,
        service=service or "",
        kind=line,
        title=title,
        author=item.line("author") or "",
        link=as_url(item.get("url")),
        files=_files(item),
        place={"environment": environment} if environment else {},
        before=item.line("before") or "",
        after=item.line("after") or "",
    )


def _files(item: MappedItem) -> str:
    files = item.get("files")
    paths = files[:MOST_FILES] if isinstance(files, list) else []
    lines = [single_line(path) for path in paths]
    return "\n".join(line for line in lines if line)[:LONGEST_FILES]


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
    if items and all(item.is_test() for item in items):
        return Ignored("it is the test of the sender's notifications")
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
    names = body.names("service")
    service = catalogued(settings, *names)
    environment = body.line("environment") or ""
    labels = _labels(body) | filled({"environment": environment, "sender": sender})
    identity = body.line("id") or digest_of(title, service or "", *place_identity(labels))
    # Two senders may use the same ids.
    fingerprint = digest_of(sender, identity)[:16]
    url = as_url(body.get("url"))
    alert = Alert(
        source=SOURCE,
        id=identity,
        title=title,
        started_at=began or now,
        status=status,
        severity=body.line("severity"),
        summary=plain(body.get("summary"), LONG) or None,
        labels=labels | {"fingerprint": fingerprint},
        links=(Link(title=sender or "Alert", url=url),) if url else (),
    )
    named = []
    for name in names:
        # A machine stands in for the service where the sender knows no other name.
        is_machine = name in (labels.get("host"), alert.host)
        named.append(Naming(name, "what the sender calls its service", is_hint=is_machine))
    alert = identified(alert, settings, now=now, named=named)
    slot = str(int(now.timestamp() // RETRY_SLOT_S))
    occurrence = f"{fingerprint} {began.isoformat()}" if began else None
    delivery_id = digest_of(status, occurrence or fingerprint, slot)
    # An end sorts behind the beginning, whose time it carries.
    ordered = began if status == "firing" or began is None else began + timedelta(microseconds=1)
    return Arrival(alert, Delivery(SOURCE, delivery_id, ordered, occurrence), ReplyTo())


def _status(body: MappedItem) -> Literal["firing", "resolved"] | None:
    """`firing` or `resolved`; None for what is neither."""
    if body.webhook_settings.expression("state") is None:
        return "firing"
    line = (body.line("state") or "").casefold()
    if line in body.webhook_settings.firing:
        return "firing"
    if line in body.webhook_settings.resolved:
        return "resolved"
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
    signed = any(sender.settings.webhook.signature_header for sender in senders)
    large_body_lock = asyncio.Lock()

    def proven(request: WebhookRequest, body: bytes) -> Sender:
        # Every one is tried: the time taken must not tell whose secret it was.
        fitting = [sender for sender in senders if _proves(sender.settings.webhook, request, body)]
        if not fitting:
            raise BadSignature(SOURCE, "no token or signature fits")
        return fitting[0]

    async def receive(request: WebhookRequest) -> RequestContent:
        # Without signatures, what a stranger sends is not even read.
        body = await request.read() if signed else b""
        sender = proven(request, body)
        body = body if signed else await request.read()
        webhook_settings = sender.settings.webhook
        name = webhook_settings.instance.name
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


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Generic webhooks",
    setup="Any system that posts JSON, by a preset or by fields named in the settings:",
    settings=WebhookSettings,
    required=("tokens",),
    receive=_receive,
)
