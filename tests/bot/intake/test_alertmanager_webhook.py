"""Alertmanager's groups become one alert each."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.sources.alertmanager import read_alertmanager
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import alertmanager_alert, alertmanager_group
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(services={"checkout": ServiceSettings(aliases=("basket",))})


def read(payload: Any, now: datetime = NOW) -> list[Arrival]:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    found = read_alertmanager(body, SETTINGS, now=now)
    assert not isinstance(found, Ignored), found
    return found


def test_each_firing_alert_is_an_alert_with_its_labels() -> None:
    first, second = read(
        alertmanager_group(alertmanager_alert("A"), alertmanager_alert("B", number=2))
    )
    assert (first.alert.title, second.alert.title) == ("A", "B")
    assert first.alert.summary == "5xx ratio 50 %"
    assert first.alert.service == "checkout"
    assert first.alert.severity == "critical"
    assert first.alert.started_at == datetime(2026, 11, 20, 10, 0, 1, 123456, tzinfo=UTC)
    assert first.alert.labels["fingerprint"] == f"{1:016x}"
    assert first.alert.links[0].url == "http://prometheus.example/graph?g0.expr=up"
    assert first.alert.fingerprint != second.alert.fingerprint


def test_what_prometheus_and_alertmanager_really_send_fires_and_resolves(shared: Path) -> None:
    (firing,), (resolved,) = (
        read(
            json.loads((shared / f"webhooks/alertmanager/webhook.{state}.json").read_text())["body"]
        )
        for state in ("firing", "resolved")
    )
    assert (firing.alert.status, resolved.alert.status) == ("firing", "resolved")
    assert firing.alert.fingerprint == resolved.alert.fingerprint
    assert firing.delivery != resolved.delivery
    assert [link.title for link in firing.alert.links] == ["Alert rule", "Runbook", "Alertmanager"]


def test_grafanas_webhook_is_read_too(shared: Path) -> None:
    found = read((shared / "webhooks/grafana/webhook.firing.json").read_bytes())
    assert found
    assert {one.alert.status for one in found} <= {"firing", "resolved"}


def test_a_retry_is_a_duplicate_and_a_repetition_is_not() -> None:
    group = alertmanager_group(alertmanager_alert())
    (sent,), (retried,), (repeated,) = (
        read(group, NOW + timedelta(seconds=s)) for s in (0, 30, 4 * 3600)
    )
    assert sent.delivery == retried.delivery
    assert sent.delivery != repeated.delivery
    assert sent.alert.fingerprint == repeated.alert.fingerprint


def test_an_alert_that_fires_anew_is_another_delivery() -> None:
    again = alertmanager_alert() | {"startsAt": "2026-11-20T10:00:59Z"}
    (first,), (second,) = (
        read(alertmanager_group(alertmanager_alert())),
        read(alertmanager_group(again)),
    )
    assert first.delivery != second.delivery


@pytest.mark.parametrize(
    ("labels", "service"),
    [
        ({"service": "s", "job": "j", "app": "a"}, "s"),
        ({"job": "j", "app": "a"}, "a"),
        ({"job": "j"}, "j"),
        ({"service": "unknown", "job": "Basket"}, "checkout"),
        ({}, None),
    ],
)
def test_the_service_comes_from_labels_the_catalogue_first(
    labels: dict[str, str], service: str | None
) -> None:
    (found,) = read(alertmanager_group({"labels": {"alertname": "A", **labels}}))
    assert found.alert.service == service


def test_without_a_fingerprint_the_labels_make_one() -> None:
    def labelled(**labels: str) -> str:
        (found,) = read(alertmanager_group({"labels": {"alertname": "A", **labels}}))
        return found.alert.fingerprint

    assert labelled(a="1", b="2") == labelled(b="2", a="1")
    assert labelled(a="1") != labelled(a="2")


@pytest.mark.parametrize("label", ["namespace", "env", "destination_workload_namespace"])
def test_without_a_fingerprint_the_place_of_the_rule_tells_equal_labels_apart(label: str) -> None:
    def ruled(place: str) -> str:
        rule = f'sum by (app) (rate(errors_total{{{label}="{place}"}}[5m])) > 1'
        url = f"http://prometheus:9090/graph?g0.expr={quote(rule)}"
        labels = {"alertname": "ErrorsHigh", "app": "checkout"}
        (found,) = read(alertmanager_group({"labels": labels, "generatorURL": url}))
        return found.alert.fingerprint

    assert ruled("prod") == ruled("prod")
    assert ruled("prod") != ruled("staging")


def test_gos_zero_time_counts_as_now() -> None:
    (found,) = read(alertmanager_group(alertmanager_alert() | {"startsAt": "0001-01-01T00:00:00Z"}))
    assert found.alert.started_at == NOW


def test_a_long_runbook_address_is_kept_whole() -> None:
    url = "https://runbooks.example/" + "a" * 1_000
    (found,) = read(
        alertmanager_group(alertmanager_alert() | {"annotations": {"runbook_url": url}})
    )
    assert url in [link.url for link in found.alert.links]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"alerts": {}}', b'{"alerts": [1, null, {}]}']
)
def test_bodies_without_alerts_are_ignored_with_a_reason(body: bytes) -> None:
    found = read_alertmanager(body, SETTINGS, now=NOW)
    assert isinstance(found, Ignored)
    assert found.reason


@examples(max_examples=60)
@given(st.binary(max_size=300))
def test_any_bytes_are_ignored_or_alerts(body: bytes) -> None:
    assert isinstance(read_alertmanager(body, SETTINGS, now=NOW), (Ignored, list))


NAMES = ("status", "labels", "annotations", "startsAt", "generatorURL", "fingerprint")


@examples(max_examples=60)
@given(
    st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON)), max_size=3), JSON, JSON
)
def test_any_values_in_the_fields_give_alerts_that_can_be_stored(
    alerts: Any, key: Any, url: Any
) -> None:
    body = json.dumps({"alerts": alerts, "groupKey": key, "externalURL": url}).encode()
    found = read_alertmanager(body, SETTINGS, now=NOW)
    for one in [] if isinstance(found, Ignored) else found:
        assert len(one.alert.fingerprint) == 16
        one.alert.model_dump_json().encode()
