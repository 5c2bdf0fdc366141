"""Incidents of incident.io and Rootly become alerts, and their ends."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import SecretStr

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.incident_io import (
    read_incident_io,
    sign_incident_io,
    verify_incident_io,
)
from faultline.bot.intake.sources.rootly import read_rootly, sign_rootly
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import Senders
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(services={"checkout": ServiceSettings(aliases=("Basket",))})
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ROOTLY = "r00tly"
CREATED = "public_incident.incident_created_v2"
UPDATED = "public_incident.incident_status_updated_v2"


def incident(category: str = "live", **more: Any) -> dict[str, Any]:
    """`WebhookIncidentV2` with what is read of it."""
    return {
        "id": "01FDAG4SAP5TYPT98WGR2N7W91",
        "reference": "INC-123",
        "name": "Payments fail",
        "summary": "Connection pool exhausted",
        "mode": "standard",
        "visibility": "public",
        "permalink": "https://app.incident.io/acme/incidents/123",
        "created_at": "2026-11-20T09:58:00Z",
        "updated_at": "2026-11-20T10:00:00Z",
        "severity": {"name": "Major", "rank": 2},
        "incident_status": {"name": "Investigating", "category": category},
        "incident_type": {"name": "Production"},
        "custom_field_entries": [
            {
                "custom_field": {"name": "Affected services"},
                "values": [{"value_catalog_entry": {"name": "Basket"}}],
            }
        ],
        **more,
    }


def created(category: str = "live", **more: Any) -> dict[str, Any]:
    return {"event_type": CREATED, CREATED: incident(category, **more)}


def moved(was: str, becomes: str) -> dict[str, Any]:
    about = {
        "incident": incident(becomes),
        "previous_status": {"category": was},
        "new_status": {"category": becomes},
    }
    return {"event_type": UPDATED, UPDATED: about}


def event(type_: str = "incident.created", **more: Any) -> dict[str, Any]:
    """docs.rootly.com, "Event Payloads", shortened."""
    incident = {
        "id": "b7eed587-50e6-44fe-b010-7a2bb05d737a",
        "title": "Sparkling Frost",
        "kind": "normal",
        "status": "started",
        "summary": "Payments fail",
        "url": "https://rootly.com/account/incidents/19-sparkling-frost",
        "started_at": "2026-11-20T01:58:00.000-08:00",
        "severity": {"data": {"attributes": {"name": "SEV1", "slug": "sev1"}}},
        "services": [{"name": "Basket", "slug": "basket"}],
        "environments": [{"name": "Production", "slug": "production"}],
        **more,
    }
    issued = {"id": f"E-{type_}", "type": type_, "issued_at": "2026-11-20T02:00:00.546-08:00"}
    return {"event": issued, "data": incident}


def alert_event(kind: str = "alert.created", **more: Any) -> dict[str, Any]:
    return event(
        kind,
        title=None,
        kind=None,
        url=None,
        severity=None,
        services=None,
        environments=None,
        source="pagerduty",
        summary="database-prod-002 Memory threshold over 85%",
        external_url="https://rootly.pagerduty.com/alerts/Q1IC19Z6U7MIQB",
        labels=[{"key": "service", "value": "Basket"}, {"key": "severity", "value": "high"}],
        data={"hello": "world"},
        **more,
    )


def of_incident_io(payload: Any) -> Arrival | Ignored:
    return read_incident_io(json.dumps(payload).encode(), SETTINGS, now=NOW)


def of_rootly(payload: Any) -> Arrival | Ignored:
    return read_rootly(json.dumps(payload).encode(), SETTINGS, now=NOW)


def taken(found: Arrival | Ignored) -> Arrival:
    assert isinstance(found, Arrival), found
    return found


def test_an_incident_of_incident_io_is_an_alert_of_the_service_that_a_field_names() -> None:
    alert = taken(of_incident_io(created())).alert
    assert (alert.title, alert.service, alert.severity) == ("Payments fail", "checkout", "Major")
    assert alert.started_at == datetime(2026, 11, 20, 9, 58, tzinfo=UTC)
    assert alert.summary == "Connection pool exhausted"
    assert alert.labels["reference"] == "INC-123"
    assert alert.links[0].url == "https://app.incident.io/acme/incidents/123"


def test_incident_ios_own_examples_are_read(shared: Path) -> None:
    text = gzip.decompress((shared / "specs/incident-io.json.gz").read_bytes())
    schemas = json.loads(text)["components"]["schemas"]
    example = schemas["WebhooksPublicIncidentIncidentCreatedV2ResponseBody"]["example"]
    assert taken(of_incident_io(example)).alert.labels["reference"] == "INC-123"
    secret = schemas["WebhooksPrivateIncidentIncidentCreatedV2ResponseBody"]["example"]
    assert isinstance(of_incident_io(secret), Ignored), "it holds an id alone"


def test_the_status_of_an_incident_ends_and_reopens_its_alert() -> None:
    begin, end = taken(of_incident_io(created())), taken(of_incident_io(moved("live", "learning")))
    again = taken(of_incident_io(moved("closed", "live")))
    assert [one.alert.status for one in (begin, end, again)] == ["firing", "resolved", "firing"]
    assert len({one.alert.fingerprint for one in (begin, end, again)}) == 1
    assert len({one.delivery.id for one in (begin, end, again)}) == 3
    assert again.alert.started_at == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "payload",
    [
        moved("triage", "live"),
        moved("learning", "closed"),
        moved("live", "paused"),
        created("closed"),
        created(mode="test"),
        created(mode="tutorial"),
        created(mode="retrospective"),
        {"event_type": "public_incident.action_created_v1"},
        {"event_type": CREATED, CREATED: None},
        {"event_type": []},
        [],
    ],
)
def test_what_neither_begins_nor_ends_starts_nothing(payload: Any) -> None:
    assert isinstance(of_incident_io(payload), Ignored)


def test_the_signature_is_svixs() -> None:
    """The example of docs.svix.com and its libraries' tests."""
    body = b'{"test": 2432232314}'
    assert (
        sign_incident_io("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body, WHSEC)
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def signed_headers(body: bytes, *, at: float, secret: str = WHSEC) -> dict[str, str]:
    sent = str(int(at))
    other = "v1,bm9uc2Vuc2U="
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": sent,
        "webhook-signature": f"{other} {sign_incident_io('msg_1', sent, body, secret)}",
    }


def refused(body: bytes, headers: dict[str, str], secret: str = WHSEC) -> bool:
    try:
        verify_incident_io(body, headers, [SecretStr(secret)], now=1_000_000)
    except BadSignature:
        return True
    return False


def test_a_forged_changed_or_old_message_of_incident_io_is_refused() -> None:
    body = b"{}"
    good = signed_headers(body, at=1_000_000)
    assert not refused(body, good)
    assert refused(b"{ }", good)
    assert refused(body, good | {"webhook-id": "msg_2"})
    assert refused(body, good | {"webhook-timestamp": "1000001"})
    assert refused(body, good | {"webhook-signature": " ".join(["v1,eA=="] * 17)})
    assert refused(body, signed_headers(body, at=1_000_000, secret="whsec_eA=="))
    assert refused(body, signed_headers(body, at=1_000_000 - 301))
    assert refused(body, signed_headers(body, at=1_000_000 + 301))
    assert refused(body, {})
    assert refused(body, good, secret="whsec_not base64"), (
        "a wrong setting refuses, and does not fail"
    )


Serve = Callable[..., Senders]


@pytest.fixture
def bot(serve: Serve, sqlite_store: Store) -> Senders:
    environ = {
        "FAULTLINE_INCIDENT_IO__WEBHOOK_SECRETS": WHSEC,
        "FAULTLINE_ROOTLY__WEBHOOK_SECRETS": ROOTLY,
    }
    return serve(sqlite_store, settings_of({"alerts": {"oldest_days": 36_500}}, environ))


def test_a_retry_of_incident_io_is_one_delivery(bot: Senders) -> None:
    body = json.dumps(created()).encode()
    said = []
    for age in (2, 0):
        headers = signed_headers(body, at=time.time() - age)
        said.append(bot.post("/webhooks/incident_io", body, headers).json()["outcome"])
    assert said == ["started", "duplicate"]
    end = json.dumps(moved("live", "closed")).encode()
    headers = signed_headers(end, at=time.time())
    assert bot.post("/webhooks/incident_io", end, headers).json()["outcome"] == "resolved"


def rootly_headers(body: bytes, secret: str = ROOTLY) -> dict[str, str]:
    return {"x-rootly-signature": f"t=1492774588, v1={sign_rootly(body, '1492774588', secret)}"}


def test_the_signature_of_rootly_covers_time_and_body() -> None:
    """docs.rootly.com, "Verifying Webhooks": the timestamp is concatenated with the body."""
    expected = hmac.new(ROOTLY.encode(), b'1492774588{"a":1}', hashlib.sha256).hexdigest()
    assert sign_rootly(b'{"a":1}', "1492774588", ROOTLY) == expected


def test_a_forged_or_changed_event_of_rootly_is_refused(bot: Senders) -> None:
    body = json.dumps(event()).encode()
    good = rootly_headers(body)["x-rootly-signature"]
    wrong = ("", good.replace("t=1492774588", "t=1492774589"), "t=1492774588,v1=", good[:-1] + "x")
    for header in (*wrong, rootly_headers(body, "guess")["x-rootly-signature"]):
        status = bot.post("/webhooks/rootly", body, {"x-rootly-signature": header}).status_code
        assert status == 401
    assert bot.post("/webhooks/rootly", body + b" ", rootly_headers(body)).status_code == 401
    assert bot.post("/webhooks/rootly", body, rootly_headers(body)).json()["outcome"] == "started"
    assert bot.post("/webhooks/rootly", body, rootly_headers(body)).json()["outcome"] == "duplicate"


def test_an_incident_of_rootly_begins_and_ends() -> None:
    begin, end = taken(of_rootly(event())), taken(of_rootly(event("incident.resolved")))
    alert = begin.alert
    assert (alert.title, alert.service, alert.severity) == ("Sparkling Frost", "checkout", "SEV1")
    assert alert.started_at == datetime(2026, 11, 20, 9, 58, tzinfo=UTC)
    assert alert.labels["environment"] == "production"
    assert alert.links[0].url.startswith("https://rootly.com/")
    assert (alert.status, end.alert.status) == ("firing", "resolved")
    assert alert.fingerprint == end.alert.fingerprint
    assert begin.delivery != end.delivery


def test_an_alert_of_rootly_is_known_by_its_labels() -> None:
    alert = taken(of_rootly(alert_event())).alert
    assert alert.title == "database-prod-002 Memory threshold over 85%"
    assert (alert.service, alert.severity) == ("checkout", "high")
    assert alert.labels["hello"] == "world"
    assert alert.labels["alert_source"] == "pagerduty"
    assert alert.links[0].url == "https://rootly.pagerduty.com/alerts/Q1IC19Z6U7MIQB"
    assert taken(of_rootly(alert_event("alert.resolved"))).alert.status == "resolved"


def test_an_event_of_rootly_issued_a_week_ago_starts_nothing() -> None:
    late = read_rootly(json.dumps(event()).encode(), SETTINGS, now=NOW + timedelta(days=7))
    assert isinstance(late, Ignored)
    assert "alerts.oldest_days" in late.reason


@pytest.mark.parametrize(
    "payload",
    [
        event("incident.updated"),
        event("pulse.created"),
        event(kind="scheduled"),
        event(kind="backfilled"),
        {"event": {"type": "incident.created"}},
        [],
    ],
)
def test_other_events_of_rootly_start_nothing(payload: Any) -> None:
    assert isinstance(of_rootly(payload), Ignored)


@examples(max_examples=100)
@given(st.dictionaries(st.sampled_from(sorted(incident())), JSON))
def test_any_values_give_an_alert_or_nothing(changes: dict[str, Any]) -> None:
    about = incident() | changes
    change = {"incident": about, "previous_status": {"category": "live"}, "new_status": about}
    for payload in (
        {"event_type": CREATED, CREATED: about},
        {"event_type": UPDATED, UPDATED: change},
        event() | {"data": {**event()["data"], **changes}},
    ):
        for found in (of_incident_io(payload), of_rootly(payload)):
            if isinstance(found, Arrival):
                found.alert.model_dump_json().encode()
