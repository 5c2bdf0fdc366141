"""Bodies as each system documents them become alerts, and their ends, by its preset alone."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.sources.webhook import read_webhook
from faultline.bot.settings import Settings, load_settings
from faultline.bot.settings.webhook import PRESETS, WebhookSettings
from faultline.bot.store.store import Arrival, Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import Senders

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
BEGAN = datetime(2026, 11, 20, 9, 58, tzinfo=UTC)
BEGAN_S = int(BEGAN.timestamp())
SETTINGS = Settings(services={"checkout": ServiceSettings(aliases=("checkout-vm", "basket"))})

# grafana.com/docs/oncall/latest/outgoing-webhooks, shortened.
ONCALL = {
    "event": {"type": "alert group created", "time": "2026-11-20T09:58:00.714058+00:00"},
    "user": {"id": "UVMX6YI9VY9PV", "username": "admin", "email": "admin@localhost"},
    "alert_group": {
        "id": "I6HNZGUFG4K11",
        "integration_id": "CZ7URAT4V3QF2",
        "alerts_count": 1,
        "state": "firing",
        "created_at": "2026-11-20T09:58:00Z",
        "resolved_at": None,
        "title": "Checkout errors",
        "permalinks": {
            "slack": None,
            "web": "https://acme.grafana.net/a/grafana-oncall-app/alert-groups/I6HNZGUFG4K11",
        },
    },
    "alert_group_id": "I6HNZGUFG4K11",
    "alert_payload": {
        "commonLabels": {"service": "basket", "severity": "critical", "environment": "prod"},
        "commonAnnotations": {"description": "5 % of requests fail"},
    },
    "integration": {"id": "CZ7URAT4V3QF2", "type": "alertmanager", "name": "Prod", "team": "shop"},
}
# docs.dynatrace.com, "Webhook integration": the body of our page with its placeholders filled in.
DYNATRACE = {
    "State": "OPEN",
    "PID": "-6004362228644432354_1772452920000V2",
    "ProblemID": "P-26031",
    "ProblemTitle": "Failure rate increase",
    "ProblemImpact": "SERVICE",
    "ProblemSeverity": "ERROR",
    "ProblemURL": "https://abc12345.live.dynatrace.com/#problems/problemdetails;pid=-6004362228",
    "ImpactedEntities": [
        {"type": "SERVICE", "name": "elsewhere", "entity": "SERVICE-0A1B2C3D4E5F6071"},
        {"type": "SERVICE", "name": "checkout", "entity": "SERVICE-1A2B3C4D5E6F7081"},
    ],
    "ProblemDetailsJSONv2": {
        "problemId": "-6004362228644432354_1772452920000V2",
        "status": "OPEN",
        "startTime": BEGAN_S * 1000,
        "endTime": -1,
        "rootCauseEntity": None,
    },
}
# docs.newrelic.com, "Notification message templates", as a destination received it.
NEW_RELIC = {
    "id": "98441886-dfc8-4090-afc2-bfd7a1ac8e59",
    "issueUrl": "https://radar-api.service.newrelic.com/accounts/1/issues/98441886?notifier=WEBHOOK",
    "title": "Error rate > 5 % for at least 5 minutes on 'checkout'",
    "priority": "CRITICAL",
    "impactedEntities": ["elsewhere", "checkout"],
    "totalIncidents": 1,
    "state": "ACTIVATED",
    "trigger": "INCIDENT_ADDED",
    "isCorrelated": "false",
    "createdAt": BEGAN_S * 1000,
    "updatedAt": BEGAN_S * 1000 + 9_000,
    "sources": ["newrelic"],
    "alertPolicyNames": ["Golden signals"],
    "alertConditionNames": ["Error rate"],
    "workflowName": "to Faultline",
}
# The body of docs/connectors/webhook.md, as help.victorops.com fills its variables.
ONCALL_SPLUNK = {
    "entity_id": "checkout/errors",
    "title": "Checkout errors",
    "phase": "UNACKED",
    "severity": "CRITICAL",
    "service": "basket",
    "host": "${{STATE.HOST}}",
    "started": str(BEGAN_S * 1000),
    "message": "5 % of requests fail",
    "incident": "14",
    "routing_key": "shop",
    "url": "https://portal.victorops.com/ui/acme/incident/14/details",
}
# cloud.google.com/monitoring/support/notification-options, version 1.2, shortened.
GCP = {
    "incident": {
        "incident_id": "0.nwg9th6llz4w",
        "scoping_project_id": "acme-prod",
        "scoping_project_number": 1099221943211,
        "url": "https://console.cloud.google.com/monitoring/alerting/alerts/0.nwg9th6llz4w",
        "started_at": BEGAN_S,
        "ended_at": None,
        "state": "open",
        "severity": "Critical",
        "resource_id": "11223344",
        "resource_name": "acme-prod checkout-vm",
        "resource_display_name": "checkout-vm",
        "resource_type_display_name": "VM Instance",
        "resource": {
            "type": "gce_instance",
            "labels": {
                "instance_id": "11223344",
                "project_id": "acme-prod",
                "zone": "europe-west4-c",
            },
        },
        "metric": {
            "type": "compute.googleapis.com/instance/cpu/utilization",
            "displayName": "CPU utilization",
            "labels": {"instance_name": "checkout-vm"},
        },
        "metadata": {"system_labels": {"labelkey": "labelvalue"}, "user_labels": {}},
        "policy_name": "CPU of the shop",
        "policy_user_labels": {"environment": "prod"},
        "condition_name": "VM Instance - CPU utilization",
        "threshold_value": "0.9",
        "observed_value": "0.95",
        "documentation": {"content": "docs", "mime_type": "text/markdown"},
        "summary": "CPU utilization for acme-prod checkout-vm is above the threshold of 0.9.",
    },
    "version": "1.2",
}


def read(preset: Any, payload: Any) -> Arrival | Ignored:
    body = json.dumps(payload).encode()
    found = read_webhook(body, SETTINGS, WebhookSettings(preset=preset), sender="", now=NOW)
    if isinstance(found, Ignored):
        return found
    (arrival,) = found
    return arrival


def changed(payload: dict[str, Any], *path: str, to: Any) -> dict[str, Any]:
    """A copy in which the value at this path is another."""
    copied: dict[str, Any] = json.loads(json.dumps(payload))
    place = copied
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return copied


GROUP = ("alert_group", "state")
CASES = [
    (
        "grafana_oncall",
        ONCALL,
        changed(changed(ONCALL, *GROUP, to="resolved"), "event", "type", to="resolve"),
        changed(changed(ONCALL, *GROUP, to="acknowledged"), "event", "type", to="acknowledge"),
        ("critical", "prod"),
    ),
    (
        "new_relic",
        NEW_RELIC,
        changed(NEW_RELIC, "state", to="CLOSED"),
        changed(NEW_RELIC, "state", to="ACKNOWLEDGED"),
        ("CRITICAL", None),
    ),
    (
        "dynatrace",
        DYNATRACE,
        changed(DYNATRACE, "State", to="RESOLVED"),
        changed(DYNATRACE, "State", to="MERGED"),
        ("ERROR", None),
    ),
    (
        "splunk_oncall",
        ONCALL_SPLUNK,
        changed(ONCALL_SPLUNK, "phase", to="RESOLVED"),
        changed(ONCALL_SPLUNK, "phase", to="ACKED"),
        ("CRITICAL", None),
    ),
    (
        "gcp_monitoring",
        GCP,
        changed(GCP, "incident", "state", to="closed"),
        None,
        ("Critical", "prod"),
    ),
]


@pytest.mark.parametrize(("preset", "opened", "ended", "update", "says"), CASES)
def test_the_documented_body_opens_and_ends_one_alert(
    preset: str, opened: Any, ended: Any, update: Any, says: tuple[str, str | None]
) -> None:
    begin, end = read(preset, opened), read(preset, ended)
    assert isinstance(begin, Arrival)
    assert isinstance(end, Arrival)
    alert = begin.alert
    assert (alert.status, end.alert.status) == ("firing", "resolved")
    assert (alert.service, alert.started_at) == ("checkout", BEGAN)
    assert (alert.severity, alert.labels.get("environment")) == says
    assert alert.links[0].url.startswith("https://")
    assert "$" not in "".join(alert.labels.values())
    assert alert.fingerprint == end.alert.fingerprint
    assert begin.delivery.id != end.delivery.id
    assert begin.delivery.occurrence == end.delivery.occurrence, "its end is this one's"
    if update is not None:
        assert isinstance(read(preset, update), Ignored)


def test_google_cloud_is_known_by_basic_authentication_and_ends_what_it_began(
    serve: Callable[..., Senders], sqlite_store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text('[[webhook]]\nname = "gcp"\npreset = "gcp_monitoring"\n')
    environ = {"FAULTLINE_WEBHOOK__GCP__TOKENS": "faultline:pw-1"}
    bot = serve(sqlite_store, load_settings(file, environ))

    def post(payload: Any, user: str) -> httpx.Response:
        basic = base64.b64encode(user.encode()).decode()
        headers = {"authorization": f"Basic {basic}"}
        return bot.post("/webhooks/webhook", json.dumps(payload).encode(), headers)

    opened = changed(GCP, "incident", "started_at", to=int(time.time()) - 60)
    ended = changed(opened, "incident", "state", to="closed")
    ended["incident"]["ended_at"] = int(time.time())
    for wrong in ("faultline:pw-2", "other:pw-1", "faultline"):
        assert post(opened, wrong).status_code == 401
    outcomes = [post(one, "faultline:pw-1").json()["outcome"] for one in (opened, opened, ended)]
    assert outcomes == ["started", "duplicate", "resolved"]


def test_opsgenies_own_samples_are_read(shared: Path) -> None:
    samples = shared / "webhooks/opsgenie"
    created = json.loads((samples / "Create.json").read_text())
    details = {"service": "basket", "environment": "prod", "runbook": "https://wiki.example/r"}
    full = changed(changed(created, "alert", "details", to=details), "alert", "priority", to="P1")
    begin, end = read("opsgenie", full), read("opsgenie", changed(full, "action", to="Close"))
    assert isinstance(begin, Arrival)
    assert isinstance(end, Arrival)
    alert = begin.alert
    assert alert.title == "test alert"
    assert (alert.service, alert.severity) == ("checkout", "P1")
    assert alert.labels["runbook"] == details["runbook"]
    assert alert.started_at == datetime(2015, 1, 5, 10, 3, 11, 104_000, UTC)
    assert end.alert.status == "resolved"
    assert alert.fingerprint == end.alert.fingerprint
    assert isinstance(read("opsgenie", created), Arrival), "without details and priority"
    assert isinstance(
        read("opsgenie", json.loads((samples / "Acknowledge.json").read_text())), Ignored
    )


def test_a_reopened_alert_group_fires_again() -> None:
    again = read("grafana_oncall", changed(ONCALL, "event", "type", to="unresolve"))
    assert isinstance(again, Arrival)
    assert again.alert.status == "firing"


def test_a_repeat_of_an_open_issue_is_the_same_occurrence() -> None:
    later = changed(NEW_RELIC, "updatedAt", to=(BEGAN_S + 3600) * 1000)
    first, again = read("new_relic", NEW_RELIC), read("new_relic", later)
    assert isinstance(first, Arrival)
    assert isinstance(again, Arrival)
    assert first.delivery.occurrence == again.delivery.occurrence
    assert again.alert.started_at < NOW - timedelta(minutes=1)


def test_every_preset_can_be_chosen() -> None:
    for name in PRESETS:
        assert WebhookSettings.model_validate({"preset": name}).expression("title")
