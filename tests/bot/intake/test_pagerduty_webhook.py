"""PagerDuty incidents become alerts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.sources.pagerduty import read_pagerduty
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import pagerduty_event

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(
    alerts=AlertSettings(oldest_days=36_500),
    services={
        "checkout": ServiceSettings(aliases=("Basket",)),
        "api": ServiceSettings(pagerduty_service="PF9KMXH"),
    },
)


def read(payload: Any) -> Arrival | Ignored:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return read_pagerduty(body, SETTINGS, now=NOW)


def alert_of(payload: Any) -> Arrival:
    found = read(payload)
    assert isinstance(found, Arrival)
    return found


def test_a_triggered_incident_is_an_alert_that_replies_to_that_incident() -> None:
    found = alert_of(pagerduty_event())
    assert found.alert.title == "Checkout errors"
    assert found.alert.status == "firing"
    assert found.alert.started_at == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
    assert found.alert.service == "checkout", "the catalogue's name for PagerDuty's Basket"
    assert found.alert.severity == "high"
    assert found.alert.labels["incident_key"] == "key-PABC123"
    assert [link.url for link in found.alert.links] == [
        "https://acme.pagerduty.com/incidents/PABC123"
    ]
    assert found.reply_to.pagerduty_incident == "PABC123"


def test_pagerdutys_own_sample_is_read(shared: Path) -> None:
    body = (shared / "webhooks/pagerduty/incident.triggered.json").read_bytes()
    found = alert_of(body)
    assert found.alert.title == "A little bump in the road"
    assert found.alert.severity == "P1"
    assert found.alert.service == "api", "by the id of PagerDuty's service"
    assert found.alert.labels["incident_key"] == "d3640fbd41094207a1c11e58e46b1662"


def test_of_all_of_pagerdutys_samples_only_three_kinds_are_alerts(shared: Path) -> None:
    files = sorted((shared / "webhooks/pagerduty").glob("[is]*.json"))
    assert len(files) > 25
    kept = {file.stem for file in files if isinstance(read(file.read_bytes()), Arrival)}
    assert kept == {"incident.triggered", "incident.reopened", "incident.resolved"}


def test_the_samples_of_one_incident_share_a_fingerprint_and_differ_as_deliveries(
    shared: Path,
) -> None:
    names = ("triggered", "reopened", "resolved")
    found = [
        alert_of((shared / f"webhooks/pagerduty/incident.{name}.json").read_bytes())
        for name in names
    ]
    assert len({one.alert.fingerprint for one in found}) == 1
    assert len({one.delivery.id for one in found}) == 3
    assert [one.alert.status for one in found] == ["firing", "firing", "resolved"]


def test_a_reopened_incident_starts_when_it_was_reopened() -> None:
    payload = pagerduty_event("incident.reopened")
    payload["event"]["data"]["reopened_at"] = "2026-11-20T09:59:00+00:00"
    assert alert_of(payload).alert.started_at == datetime(2026, 11, 20, 9, 59, tzinfo=UTC)


def test_the_delivery_is_known_by_the_event_in_the_signed_body() -> None:
    first, again = alert_of(pagerduty_event()), alert_of(pagerduty_event())
    other = alert_of(pagerduty_event(event="E2"))
    assert first.delivery == again.delivery
    assert first.delivery != other.delivery


def test_without_an_event_id_the_body_itself_identifies_the_delivery() -> None:
    first, again = alert_of(pagerduty_event(event="")), alert_of(pagerduty_event(event=""))
    other = alert_of(pagerduty_event(event="", incident="PXYZ"))
    assert first.delivery == again.delivery
    assert first.delivery != other.delivery


@pytest.mark.parametrize(
    "kind",
    ["pagey.ping", "incident.acknowledged", "incident.priority_updated", "service.created", ""],
)
def test_other_events_are_ignored_with_a_reason(kind: str) -> None:
    found = read(pagerduty_event(kind))
    assert isinstance(found, Ignored)
    assert (kind or "without a type") in found.reason


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"event": 1}',
        b'{"event": {"data": []}}',
    ],
)
def test_bodies_that_are_no_events_are_ignored(body: bytes) -> None:
    assert isinstance(read(body), Ignored)


def test_missing_fields_cost_nothing_but_themselves() -> None:
    found = alert_of({"event": {"event_type": "incident.triggered", "data": {"id": "P1"}}})
    assert found.alert.title == "PagerDuty incident P1"
    assert found.alert.started_at == NOW
    assert found.alert.labels["incident_key"] == "P1"
    assert found.alert.service is None


def test_hostile_text_is_cut_and_cleaned() -> None:
    payload = pagerduty_event()
    payload["event"]["data"].update(
        title="boom\x00\u202e\ud800" + "x" * 10_000,
        html_url="javascript:alert(1)",
        service={"summary": "a\nb", "id": []},
    )
    found = alert_of(payload)
    assert found.alert.title.startswith("boomxxx")
    assert len(found.alert.title) <= 300
    assert found.alert.links == ()
    assert found.alert.service == "a b"
    assert json.loads(found.alert.model_dump_json())["title"] == found.alert.title


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = (
    "id",
    "incident_key",
    "title",
    "html_url",
    "urgency",
    "created_at",
    "reopened_at",
    "service",
    "priority",
)


@examples(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_ignored_or_an_alert(body: bytes) -> None:
    assert isinstance(read(body), (Ignored, Arrival))


@examples(max_examples=60)
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)),
    st.sampled_from(["incident.triggered", "incident.resolved", "incident.reopened"]),
    JSON,
)
def test_any_values_in_the_fields_give_an_alert_that_can_be_stored(
    data: Any, kind: str, at: Any
) -> None:
    found = read({"event": {"id": at, "event_type": kind, "occurred_at": at, "data": data}})
    if isinstance(found, Arrival):
        assert len(found.alert.fingerprint) == 16
        found.alert.model_dump_json().encode()
        found.delivery.id.encode()
