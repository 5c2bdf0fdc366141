"""Datadog's webhooks become alerts of their monitors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pydantic import SecretStr

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored, store_accept
from faultline.bot.intake.signatures import BadSignature, verify_token
from faultline.bot.intake.sources.datadog import TEMPLATE, read_datadog, template
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.store import Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.datadog.monitor_queries import MetricMonitor, read_monitor
from faultline.connectors.vendors.datadog.monitors import monitor_of
from tests.bot.intake.conftest import only, serving
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(
    alerts=AlertSettings(oldest_days=36_500),
    services={"checkout": ServiceSettings(aliases=("basket",))},
)
TOKENS = ("s3cret", "dd:passw0rd")
QUERY = (
    "sum(last_5m):sum:trace.http.request.errors{env:prod,service:basket} by "
    "{service}.as_count() > 50"
)


def event(**changed: Any) -> dict[str, Any]:
    """A body as Datadog fills the template in."""
    own = {
        "id": "4242",
        "cycle_key": "7405612134566785647",
        "aggreg_key": "9bd4ac313a4d1e8fae2482df7b77628",
        "transition": "Triggered",
        "type": "error",
        "metric": "trace.http.request.errors",
        "query": QUERY,
        "scope": "env:prod, service:basket",
        "status": "errors over service:basket was > 50 on average during the last 5m",
        "title": "[Triggered on {service:basket}] Checkout errors",
        "priority": "P1",
        **changed.pop("alert", {}),
    }
    return {
        "id": "1234567",
        "event_type": "query_alert_monitor",
        "title": "[Triggered] Checkout errors",
        "body": "see the runbook",
        "alert": own,
        "date": "1795168800000",
        "hostname": "node-1",
        "link": "https://app.datadoghq.com/event/jump_to?event_id=1234567",
        "snapshot": "https://p.datadoghq.com/snapshot/1",
        "tags": "monitor, service:basket, team:shop, job_name:llm-1",
        "service": "basket",
        "env": "prod",
        "version": "$TAGS[version]",
        **changed,
    }


def read(payload: Any) -> Arrival:
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    found = read_datadog(body, SETTINGS, now=NOW)
    assert not isinstance(found, Ignored), found
    return found


def test_a_triggered_monitor_is_an_alert_by_which_the_connector_finds_it() -> None:
    alert = read(event()).alert
    assert (alert.source, alert.title, alert.status) == ("datadog", "Checkout errors", "firing")
    assert (alert.service, alert.signal, alert.severity) == (
        "checkout",
        "trace.http.request.errors",
        "P1",
    )
    assert alert.started_at == datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
    assert monitor_of(alert) == 4242
    assert alert.labels["env"] == "prod"
    assert alert.job == "llm-1"
    assert isinstance(
        read_monitor(alert.labels["query"], alert.labels["monitor_type"]), MetricMonitor
    )
    assert [link.title for link in alert.links] == ["Datadog event", "Graph"]


def test_a_variable_without_a_value_is_no_value() -> None:
    assert "version" not in read(event()).alert.labels
    bare = read(
        event(
            service="$TAGS[service]",
            title="[Triggered] Errors",
            tags="$TAGS",
            alert={"scope": "", "title": "", "status": "", "query": "", "priority": "null"},
        )
    )
    assert bare.alert.service is None
    assert bare.alert.severity == "error"


@pytest.mark.parametrize(
    ("transition", "status"),
    [
        ("Triggered", "firing"),
        ("Re-Triggered", "firing"),
        ("No Data", "firing"),
        ("Recovered", "resolved"),
        ("Warn", "firing"),
    ],
)
def test_a_recovery_ends_what_a_trigger_began(transition: str, status: str) -> None:
    alert = read(event(alert={"transition": transition}, id="99")).alert
    assert alert.status == status
    assert alert.fingerprint == read(event()).alert.fingerprint


def test_groups_of_one_monitor_are_alerts_of_their_own() -> None:
    one, other = (
        read(event(alert={"aggreg_key": key, "scope": f"host:{key}"})).alert for key in ("a", "b")
    )
    assert one.fingerprint != other.fingerprint


def test_a_retry_is_the_same_delivery_and_the_next_notification_another() -> None:
    assert read(event()).delivery == read(event()).delivery
    assert read(event(id="1234568")).delivery != read(event()).delivery


def test_the_samples_are_read(shared: Path) -> None:
    samples = shared / "webhooks/datadog"
    alert = read((samples / "query_alert_monitor.triggered.json").read_bytes()).alert
    assert (alert.id, alert.title, alert.severity) == ("1234", "Host is Down", "P1")
    assert alert.labels["host"] == "ip-012345"
    assert alert.labels["availability-zone"] == "us-east-1a"
    assert alert.started_at.year == 2014
    logs = json.loads((samples / "log_alert.logs_sample.json").read_text())
    assert read(event(logs_sample=logs)).alert.id == "4242"


def test_our_template_is_what_the_page_says_and_fits_the_documented_variables(shared: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/connectors/datadog.md").read_text()
    assert template() in page
    documented = json.loads((shared / "webhooks/datadog/_payload_template.json").read_text())
    for name, variable in TEMPLATE.items():
        assert documented[name] == variable


def test_the_template_itself_is_ignored() -> None:
    found = read_datadog(template().encode(), SETTINGS, now=NOW)
    assert isinstance(found, Ignored)
    assert "names no monitor" in found.reason


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b"{}", b'{"alert": 3}', b'{"alert": {"id": "7"}}', b"[" * 99999],
)
def test_what_is_no_alert_is_ignored(body: bytes) -> None:
    assert isinstance(read_datadog(body, SETTINGS, now=NOW), Ignored)


def test_hostile_text_is_plain_in_the_alert() -> None:
    evil = "a\u202eb\x00c\n" + "x" * 9000
    alert = read(
        event(tags=f"{evil}:{evil},k:{evil}", alert={"title": evil, "scope": evil, "query": evil})
    ).alert
    assert all(
        c.isprintable() or c == "\n" for text in (alert.title, *alert.labels.values()) for c in text
    )
    assert max(len(v) for v in alert.labels.values()) <= 4000
    assert read(event(link="javascript:alert(1)", snapshot="https://u:p@x/")).alert.links == ()
    assert read(event(tags="fingerprint:mine,monitor_id:1")).alert.labels["monitor_id"] == "4242"


@given(JSON)
@examples(max_examples=150)
def test_no_body_fails(payload: Any) -> None:
    found = read_datadog(json.dumps(payload).encode(), SETTINGS, now=NOW)
    assert isinstance(found, (Arrival, Ignored))


@given(
    st.dictionaries(st.sampled_from([*TEMPLATE, "x"]), JSON),
    st.dictionaries(st.sampled_from(sorted(event()["alert"])), JSON),
)
@examples(max_examples=150)
def test_no_value_of_the_template_fails(changed: dict[str, Any], own: dict[str, Any]) -> None:
    payload = {**event(), **changed}
    payload["alert"] = {**event()["alert"], **own}
    found = read_datadog(json.dumps(payload).encode(), SETTINGS, now=NOW)
    assert isinstance(found, Ignored) or isinstance(found.alert, Alert)


TOKENS_SET = tuple(SecretStr(token) for token in TOKENS)


def test_the_sender_is_known_by_a_bearer_token_or_basic_credentials() -> None:
    verify_token("datadog", "Bearer s3cret", TOKENS_SET)
    verify_token("datadog", "Basic ZGQ6cGFzc3cwcmQ=", TOKENS_SET)


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "s3cret", "Basic czNjcmV0OnM=", "Basic ***"],
)
def test_a_sender_without_a_token_is_refused(header: str | None) -> None:
    with pytest.raises(BadSignature) as raised:
        verify_token("datadog", header, TOKENS_SET)
    assert raised.value.source == "datadog"


@given(st.text(max_size=60))
def test_no_header_is_accepted_by_chance(header: str) -> None:
    with pytest.raises(BadSignature):
        verify_token("datadog", header, (SecretStr("long-enough-secret"), SecretStr("")))


def test_over_http_an_alert_starts_an_investigation_and_a_stranger_none(
    settings: Settings, sqlite_store: Store
) -> None:
    known = settings.model_copy(
        update={"datadog": settings.datadog.model_copy(update={"webhook_tokens": TOKENS_SET})}
    )
    with serving(known, store_accept(sqlite_store)) as base:
        path = f"{base}/webhooks/datadog"
        assert httpx.post(path, json=event()).status_code == 401
        assert (
            httpx.post(path, json=event(), headers={"authorization": "Bearer no"}).text
            == "signature\n"
        )
        sent = httpx.post(path, json=event(), headers={"authorization": "Bearer s3cret"})
        assert (sent.status_code, sent.json()["outcome"]) == (202, "started")
        again = httpx.post(path, json=event(), headers={"authorization": "Bearer s3cret"})
        assert again.json()["outcome"] == "duplicate"
        ignored = httpx.post(path, json={"alert": {}}, headers={"authorization": "Bearer s3cret"})
        assert (ignored.status_code, ignored.json()["outcome"]) == (202, "ignored")
    assert only(sqlite_store).alert.title == "Checkout errors"


def test_without_a_token_the_address_names_the_setting(
    settings: Settings, sqlite_store: Store
) -> None:
    with serving(settings, store_accept(sqlite_store)) as base:
        answer = httpx.post(f"{base}/webhooks/datadog", json=event())
    assert (answer.status_code, answer.text) == (
        404,
        "not configured: set FAULTLINE_DATADOG__WEBHOOK_TOKENS\n",
    )
