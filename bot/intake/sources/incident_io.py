"""incident.io's webhooks: an incident that is declared or becomes live again is an alert, one that
is over its end.

Source: incident.io's OpenAPI document (`x-webhooks`) and docs.incident.io, "Webhooks". Svix sends
them: the signature covers id, time and body, and holds for five minutes. A private incident's
webhook names nothing but its id, so it starts nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import Field, SecretStr

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import (
    Receive,
    RequestContent,
    WebhookRequest,
    WebhookSource,
    proven,
)
from faultline.bot.intake.payload_fields import (
    Address,
    Line,
    Payload,
    Rows,
    Table,
    Text,
    When,
    filled,
    json_object,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import BadSignature, any_equal, usable
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.alert_sources import IncidentIoSettings

SOURCE = "incident_io"
WINDOW_S = 300
"""Svix's own limit on the age of a message: docs.svix.com, "Verifying Webhooks Manually"."""
MAX_SIGNATURES = 16
CREATED = "public_incident.incident_created_v2"
STATUS_UPDATED = "public_incident.incident_status_updated_v2"
UNDER_WAY = frozenset({"triage", "live"})
OVER = frozenset({"declined", "merged", "canceled", "learning", "closed"})
"""Categories of a status. `paused` is neither."""
UNREAL = frozenset({"test", "tutorial", "retrospective"})
"""Modes of incidents that do not happen now."""
NAMES_SERVICE = ("service", "system", "component", "functionality")
"""Words in the name of a custom field whose values are tried as services."""


class IncidentIoNamed(Payload):
    """A severity, a type, an option or an entry of the catalogue."""

    name: Line = ""
    value: Line = ""
    category: Line = ""


class IncidentIoValue(Payload):
    """One value of a custom field."""

    value_catalog_entry: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    value_option: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    value_text: Line = ""


class IncidentIoField(Payload):
    """A custom field and its values."""

    custom_field: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    values: Rows[IncidentIoValue] = ()

    def texts(self) -> Iterator[str]:
        """Its values as people read them."""
        for value in self.values:
            text = value.value_catalog_entry.name or value.value_option.value or value.value_text
            if text:
                yield text


class IncidentIoIncident(Payload):
    """`WebhookIncidentV2`."""

    id: Line = ""
    reference: Line = ""
    name: Line = ""
    summary: Text = ""
    mode: Line = ""
    permalink: Address = ""
    created_at: When = None
    updated_at: When = None
    severity: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    incident_status: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    incident_type: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    custom_field_entries: Rows[IncidentIoField] = ()

    def namings(self) -> Iterator[Naming]:
        """The values of fields that name services."""
        for entry in self.custom_field_entries:
            field = entry.custom_field.name
            if any(word in field.casefold() for word in NAMES_SERVICE):
                for text in entry.texts():
                    yield Naming(text, f"its field {field}")


class IncidentIoStatusChange(Payload):
    """`IncidentWithStatusChangeV2`."""

    incident: Table[IncidentIoIncident] = Field(default_factory=IncidentIoIncident)
    new_status: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)
    previous_status: Table[IncidentIoNamed] = Field(default_factory=IncidentIoNamed)


def sign_incident_io(message_id: str, sent: str, body: bytes, secret: str) -> str:
    """One value of `webhook-signature`: `v1,<base64 HMAC-SHA256 of id.time.body>`. The key is the
    secret behind `whsec_`, decoded. Raises ValueError for a secret that is not base64."""
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    signed = message_id.encode() + b"." + sent.encode() + b"." + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def verify_incident_io(
    body: bytes, headers: Mapping[str, str], secrets: Sequence[SecretStr], *, now: float
) -> None:
    """One of several signatures, separated by blanks, must fit one of our secrets, within five
    minutes of `now` (epoch seconds). Raises BadSignature."""
    message_id, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    parts = headers.get("webhook-signature", "").split()
    if not message_id or not parts:
        raise BadSignature(SOURCE, "no signature headers")
    # Each signature is compared with each secret: bound the work that a stranger can cause.
    if len(parts) > MAX_SIGNATURES:
        raise BadSignature(SOURCE, "too many signatures")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= 12):
        raise BadSignature(SOURCE, "the timestamp is not a number")
    if abs(now - int(sent)) > WINDOW_S:
        raise BadSignature(SOURCE, f"the timestamp is more than {WINDOW_S} s away")
    try:
        expected = [sign_incident_io(message_id, sent, body, secret) for secret in usable(secrets)]
    except (binascii.Error, ValueError):
        raise BadSignature(SOURCE, "a secret of the settings is not whsec_ and base64") from None
    if not any_equal(parts, expected):
        raise BadSignature(SOURCE, "no signature fits any secret")


def read_incident_io(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    kind = payload.get("event_type")
    # The incident stands under a key that is the event's own name.
    about = payload.get(kind) if isinstance(kind, str) else None
    if kind == CREATED and isinstance(about, dict):
        incident = IncidentIoIncident.model_validate(about)
        starts = incident.incident_status.category in UNDER_WAY
        ends = False
    elif kind == STATUS_UPDATED and isinstance(about, dict):
        change = IncidentIoStatusChange.model_validate(about)
        incident = change.incident
        was, becomes = change.previous_status.category, change.new_status.category
        # From paused to live is no new beginning, because the alert has not ended.
        starts = becomes in UNDER_WAY and was in OVER
        ends = becomes in OVER and was not in OVER
    else:
        return Ignored("neither a public incident's beginning nor a change of its status")
    if not incident.id or not (starts or ends):
        return Ignored("the incident neither begins nor ends")
    if incident.mode in UNREAL:
        return Ignored(f"a {incident.mode} incident")
    alert = _alert(incident, now, ended=ends, again=kind == STATUS_UPDATED)
    alert = identified(alert, settings, now=now, named=list(incident.namings()))
    ordered_by = incident.updated_at or alert.started_at
    if ends:
        # Its end lies behind its beginning, even where both carry one time.
        ordered_by += timedelta(microseconds=1)
    delivery = Delivery(SOURCE, hashlib.sha256(body).hexdigest(), ordered_by)
    return Arrival(alert, delivery, ReplyTo())


def _alert(incident: IncidentIoIncident, now: datetime, *, ended: bool, again: bool) -> Alert:
    # An incident that is live again began with that update, not when it was declared.
    began = incident.updated_at if again and not ended else incident.created_at
    labels = {
        "fingerprint": f"incident:{incident.id}",
        "reference": incident.reference,
        "incident_type": incident.incident_type.name,
        "url": incident.permalink,
    }
    field_labels = {
        entry.custom_field.name: ", ".join(entry.texts()) for entry in incident.custom_field_entries
    }
    link = (Link(title="incident.io incident", url=incident.permalink),)
    return Alert(
        source=SOURCE,
        id=incident.id,
        title=incident.name or f"incident.io {incident.reference or incident.id}",
        started_at=began or now,
        status="resolved" if ended else "firing",
        severity=incident.severity.name or None,
        summary=incident.summary or None,
        # The last one wins: a custom field must not replace a label that we rely on.
        labels=filled({**field_labels, **labels}),
        links=link if incident.permalink else (),
    )


def _receive(source: WebhookSource, settings: Settings) -> Receive:
    senders = source.senders(settings)

    async def receive(request: WebhookRequest) -> RequestContent:
        body = await request.read()

        def verify(secrets: Sequence[SecretStr]) -> None:
            verify_incident_io(body, request.headers, secrets, now=time.time())

        sender = proven(senders, verify)
        return sender.placed(read_incident_io(body, sender.settings, now=datetime.now(UTC)))

    return receive


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="incident.io webhooks",
    setup=f"A webhook endpoint (Settings > Webhooks) for {CREATED} and {STATUS_UPDATED}, to",
    settings=IncidentIoSettings,
    required=("webhook_secrets",),
    receive=_receive,
)
