"""Azure Monitor's alerts in the common alert schema, in the documented form of a metric alert."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from joserfc import jwt

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.signatures import Refused
from faultline.bot.intake.sources.azure_monitor import ALERT_SOURCE, read_azure_alert
from faultline.bot.intake.sources.entra_tokens import ACTION_GROUPS
from faultline.bot.policy.priority import HIGH, priority_of
from faultline.bot.policy.values import Arrival
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Store
from tests.bot.intake.conftest import serving, store_accept
from tests.connectors.local_http import LocalServer, Reply
from tests.rsa_keys import signing_key

FIRED = datetime(2026, 3, 2, 12, 0, 24, tzinfo=UTC)
NOW = FIRED + timedelta(minutes=1)
TARGET = (
    "/subscriptions/11111111-1111-1111-1111-111111111111/resourcegroups/shop-rg/providers"
    "/microsoft.web/sites/payments-prod"
)
KNOWN = Settings.model_validate(
    {
        "azure_monitor": {"webhook_tokens": ["t0ken"]},
        "services": {"payments": {"azure_role_name": "payments-prod"}, "checkout": {}},
    }
)


def notification(condition: str = "Fired", **essentials: Any) -> dict[str, Any]:
    """A notification; its fields are those of Microsoft's sample."""
    criterion = {
        "metricName": "HttpResponseTime",
        "metricNamespace": "Microsoft.Web/sites",
        "operator": "GreaterThan",
        "threshold": "1.5",
        "timeAggregation": "Average",
        "dimensions": [{"name": "Instance", "value": "RD501AC5"}],
        "metricValue": 2.727,
        "webTestName": None,
    }
    window = {"windowStartTime": "2026-03-02T11:53:30Z", "windowEndTime": "2026-03-02T11:58:30Z"}
    return {
        "schemaId": "azureMonitorCommonAlertSchema",
        "data": {
            "essentials": {
                "alertId": "/subscriptions/1/providers/Microsoft.AlertsManagement/alerts/b9569717",
                "alertRule": "Payments is slow",
                "severity": "Sev1",
                "signalType": "Metric",
                "monitorCondition": condition,
                "monitoringService": "Platform",
                "alertTargetIDs": [TARGET],
                "configurationItems": ["payments-prod"],
                "originAlertId": "3f2d4487_shop-rg_microsoft.insights_metricAlerts_slow_-117781227",
                "firedDateTime": "2026-03-02T12:00:24.3713213Z",
                "resolvedDateTime": "2026-03-02T12:09:16.2246313Z",
                "description": "p50 above 1.5 s",
                "essentialsVersion": "1.0",
                "alertContextVersion": "1.0",
                "investigationLink": "https://portal.azure.com/#view/x/b9569717",
                **essentials,
            },
            "alertContext": {
                "properties": {"team": "payments"},
                "conditionType": "SingleResourceMultipleMetricCriteria",
                "condition": {"windowSize": "PT5M", "allOf": [criterion], **window},
            },
            "customProperties": None,
        },
    }


def arrival(given: dict[str, Any], settings: Settings = KNOWN) -> Arrival:
    found = read_azure_alert(json.dumps(given).encode(), settings, now=NOW)
    assert isinstance(found, Arrival)
    return found


def test_a_firing_is_an_alert_with_its_resource_and_what_its_rule_waits_for() -> None:
    alert = arrival(notification()).alert
    assert (alert.id, alert.title, alert.status) == ("b9569717", "Payments is slow", "firing")
    assert alert.started_at.replace(microsecond=0) == FIRED
    assert alert.service == "payments"
    assert alert.summary == "p50 above 1.5 s"
    assert alert.labels["resource_group"] == "shop-rg"
    assert alert.labels["resource_type"] == "microsoft.web/sites"
    assert (alert.labels["resource"], alert.labels["team"]) == ("payments-prod", "payments")
    assert [link.url for link in alert.links] == ["https://portal.azure.com/#view/x/b9569717"]
    query = alert.query
    assert query is not None
    assert (query.text, query.namespace) == ("HttpResponseTime", "Microsoft.Web/sites")
    assert (query.comparison, query.threshold, query.window_s) == (">", 1.5, 300.0)
    assert query.dimensions == {"Instance": "RD501AC5"}
    assert priority_of(alert, source_words=ALERT_SOURCE.priority_words) == HIGH


def test_its_end_has_the_same_identity_and_another_delivery() -> None:
    fired, ended = arrival(notification()), arrival(notification("Resolved"))
    assert ended.alert.status == "resolved"
    assert ended.alert.labels["fingerprint"] == fired.alert.labels["fingerprint"]
    assert fired.delivery
    assert ended.delivery
    assert fired.delivery.id != ended.delivery.id
    assert fired.delivery.occurrence == ended.delivery.occurrence
    assert arrival(notification()).delivery == fired.delivery
    later = notification(alertId="/x/alerts/other", firedDateTime="2026-03-02T12:00:50Z")
    assert arrival(later).alert.labels["fingerprint"] == fired.alert.labels["fingerprint"]


@pytest.mark.parametrize(
    ("properties", "dimensions", "service"),
    [
        ({"service": "checkout"}, [], "checkout"),
        ({}, [{"name": "cloud/roleName", "value": "Payments-PROD"}], "payments"),
        ({}, [{"name": "cloud/roleName", "value": "search"}], "payments"),
    ],
)
def test_the_service_is_what_the_author_says_or_the_role_or_the_resource(
    properties: dict[str, str], dimensions: list[dict[str, str]], service: str
) -> None:
    given = notification()
    given["data"]["customProperties"] = properties
    given["data"]["alertContext"]["condition"]["allOf"][0]["dimensions"] = dimensions
    assert arrival(given).alert.service == service


def test_an_alert_without_a_condition_is_taken() -> None:
    given = notification(signalType="Activity Log", monitoringService="Resource Health")
    given["data"]["alertContext"] = {"channels": "Admin", "properties": {"cause": "Platform"}}
    found = arrival(given).alert
    assert found.query is None
    assert found.labels["cause"] == "Platform"


def test_microsofts_sample_of_a_log_search_alert_links_to_its_results() -> None:
    """Log Alerts V2, shortened, of "Sample alert payloads"."""
    criterion = {
        "searchQuery": "Heartbeat",
        "metricMeasureColumn": "CounterValue",
        "targetResourceTypes": "['Microsoft.Compute/virtualMachines']",
        "operator": "LowerThan",
        "threshold": "1",
        "timeAggregation": "Count",
        "dimensions": [{"name": "Computer", "value": "TestComputer"}],
        "metricValue": 0.0,
        "failingPeriods": {"numberOfEvaluationPeriods": 1, "minFailingPeriodsToAlert": 1},
        "linkToSearchResultsUI": "https://portal.azure.com#@1/blade/LogsBlade/all",
        "linkToFilteredSearchResultsUI": "https://portal.azure.com#@1/blade/LogsBlade/mine",
        "linkToSearchResultsAPI": "https://api.loganalytics.io/v1/query?query=Heartbeat",
    }
    given = notification(signalType="Log", monitoringService="Log Alerts V2")
    given["data"]["alertContext"] = {
        "properties": {"name1": "value1"},
        "conditionType": "LogQueryCriteria",
        "condition": {"windowSize": "PT10M", "allOf": [criterion]},
    }
    found = arrival(given).alert
    assert found.query is not None
    assert (found.query.language, found.query.text) == ("kql", "Heartbeat")
    # It counts rows, and aggregates no column.
    assert (found.query.statistic, found.query.metrics) == ("Count", ())
    assert (found.query.comparison, found.query.threshold) == ("<", 1)
    assert found.labels["Computer"] == "TestComputer"
    assert [link.title for link in found.links] == ["Alert", "Query"]
    assert found.links[1].url.endswith("LogsBlade/mine")


@pytest.mark.parametrize(
    ("service", "properties"),
    [
        (
            "ServiceHealth",
            {
                "title": "Azure Synapse Analytics Scheduled Maintenance Pending",
                "service": "Azure Synapse Analytics",
                "region": "East US",
                "incidentType": "Maintenance",
                "impactedServices": '[{"ServiceName":"Azure Synapse Analytics"}]',
                "stage": "Planned",
                "isHIR": "false",
            },
        ),
        (
            "Resource Health",
            {
                "title": "This virtual machine is stopping and deallocating",
                "details": None,
                "currentHealthStatus": "Unavailable",
                "previousHealthStatus": "Available",
                "type": "Downtime",
                "cause": "UserInitiated",
            },
        ),
    ],
)
def test_microsofts_samples_of_activity_log_alerts_are_read_with_their_ends(
    service: str, properties: dict[str, Any]
) -> None:
    """Of "Sample alert payloads": numbers and nulls stand where other kinds have texts."""
    arrivals = []
    for condition in ("Fired", "Resolved"):
        given = notification(condition, signalType="Activity Log", monitoringService=service)
        given["data"]["alertContext"] = {
            "authorization": None,
            "channels": 1,
            "eventSource": 2,
            "eventTimestamp": "2026-03-02T11:58:00.0312699+00:00",
            "level": 3,
            "operationName": f"Microsoft.{service}/action",
            "properties": properties,
            "status": "Active",
            "ResourceType": None,
        }
        arrivals.append(arrival(given))
    fired, ended = arrivals
    assert (fired.alert.status, ended.alert.status) == ("firing", "resolved")
    assert fired.alert.fingerprint == ended.alert.fingerprint
    assert fired.alert.labels["title"] == properties["title"]
    assert "details" not in fired.alert.labels


@pytest.mark.parametrize("given", [b"[]", b"{", b'{"schemaId": "AzureMonitorMetricAlert"}'])
def test_another_form_is_refused_so_that_the_action_group_shows_it(given: bytes) -> None:
    with pytest.raises(Refused):
        read_azure_alert(given, KNOWN, now=NOW)


def test_what_is_of_last_month_starts_nothing() -> None:
    old = notification(firedDateTime="2026-01-02T12:00:24Z")
    found = read_azure_alert(json.dumps(old).encode(), KNOWN, now=NOW)
    assert isinstance(found, Ignored)


def test_fields_of_another_type_cost_the_field_and_not_the_alert() -> None:
    given = deepcopy(notification())
    given["data"]["essentials"] |= {"alertTargetIDs": {"a": 1}, "configurationItems": [None, 5]}
    given["data"]["alertContext"] = {"condition": {"windowSize": [], "allOf": [5, {}]}}
    found = arrival(given).alert
    assert found.title == "Payments is slow"
    assert found.query is None


@pytest.mark.parametrize("threshold", ["NaN", "Infinity", "1e400", "-1e308", "high"])
def test_a_threshold_that_is_no_number_costs_the_threshold(threshold: str) -> None:
    given = notification()
    given["data"]["alertContext"]["condition"]["allOf"][0]["threshold"] = threshold
    query = arrival(given).alert.query
    assert query is not None
    assert query.threshold is None


def test_over_http_the_token_stands_in_the_address(sqlite_store: Store) -> None:
    fresh = notification(firedDateTime=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
    with serving(KNOWN, store_accept(sqlite_store)) as base:
        path = f"{base}/webhooks/azure_monitor"
        assert httpx.post(path, json=fresh).status_code == 401
        assert httpx.post(f"{path}?token=other", json=fresh).status_code == 401
        wrong = {"authorization": "Bearer other"}
        assert httpx.post(f"{path}?token=t0ken", json=fresh, headers=wrong).status_code == 401
        sent = httpx.post(f"{path}?token=t0ken", json=fresh)
        assert (sent.status_code, sent.json()["outcome"]) == (202, "started")
        again = httpx.post(f"{path}?token=t0ken", json=fresh)
        assert again.json()["outcome"] == "duplicate"
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ended = notification("Resolved", firedDateTime=now, resolvedDateTime=now)
        assert httpx.post(path, json=ended).status_code == 401
        over = httpx.post(f"{path}?token=t0ken", json=ended)
        assert (over.status_code, over.json()["outcome"]) == (202, "resolved")
        assert httpx.post(f"{path}?token=t0ken", json={}).status_code == 400


TENANT = "22222222-2222-2222-2222-222222222222"
AUDIENCE = "api://faultline"
VERSION_1 = f"https://sts.windows.net/{TENANT}/"


def entra_token(number: int = 0, name: str = "first", **changed: Any) -> str:
    """A token of version 1.0, as Entra gives it to action groups."""
    now = int(time.time())
    claims = {
        "iss": VERSION_1,
        "aud": AUDIENCE,
        "exp": now + 3600,
        "nbf": now,
        "iat": now,
        "appid": ACTION_GROUPS,
        "roles": ["ActionGroupsSecureWebhook"],
        "tid": TENANT,
    }
    header = {"alg": "RS256", "kid": name}
    return jwt.encode(header, claims | changed, signing_key(number, name))


@pytest.fixture
def entra() -> Iterator[LocalServer]:
    """Microsoft Entra, which publishes one key."""
    with LocalServer() as server:
        keys = {"keys": [{**signing_key(0, "first").as_dict(private=False), "use": "sig"}]}
        server.on(f"/{TENANT}/discovery/v2.0/keys", Reply(keys))
        yield server


def secured(entra: LocalServer, **more: Any) -> Settings:
    own = {"webhook_audience": [AUDIENCE], "webhook_tenant_id": TENANT, "login_url": entra.url}
    return Settings.model_validate({"azure_monitor": own | more})


def answered(settings: Settings, store: Store, *tokens: str) -> list[int]:
    """The statuses of one alert with each of the tokens."""
    statuses = []
    with serving(settings, store_accept(store)) as base:
        for token in tokens:
            sent = httpx.post(
                f"{base}/webhooks/azure_monitor",
                json=notification(firedDateTime=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"),
                headers={"authorization": f"Bearer {token}"},
            )
            statuses.append(sent.status_code)
    return statuses


def test_a_token_that_entra_signed_for_us_is_taken(entra: LocalServer, sqlite_store: Store) -> None:
    second = {"iss": f"{entra.url}/{TENANT}/v2.0", "appid": "", "azp": ACTION_GROUPS}
    tokens = (entra_token(), entra_token(**second))
    assert answered(secured(entra), sqlite_store, *tokens) == [202, 202]
    # The keys are read once.
    assert len(entra.asked) == 1
    both = secured(entra, webhook_tokens=["t0ken"])
    assert answered(both, sqlite_store, "t0ken", entra_token(), "other") == [202, 202, 401]


def test_any_other_token_is_refused(entra: LocalServer, sqlite_store: Store) -> None:
    now = int(time.time())
    strange = [
        entra_token(1, "other"),
        entra_token(1, "first"),
        entra_token(iss=VERSION_1.replace("2222", "3333")),
        entra_token(aud="api://another"),
        entra_token(exp=now - 3600),
        entra_token(nbf=now + 3600),
        entra_token(appid="33333333-3333-3333-3333-333333333333"),
        entra_token(aud=[AUDIENCE], exp="never"),
        "a.b.c",
    ]
    assert answered(secured(entra), sqlite_store, *strange) == [401] * len(strange)


def test_where_entra_gives_no_keys_the_action_group_shall_send_again(
    entra: LocalServer, sqlite_store: Store
) -> None:
    entra.refusal = Reply(status=503)
    assert answered(secured(entra), sqlite_store, entra_token()) == [503]


def test_an_application_needs_its_directory() -> None:
    own = {"azure_monitor": {"webhook_audience": [AUDIENCE]}}
    with pytest.raises(SettingsError, match="webhook_audience needs webhook_tenant_id"):
        settings_of(own, {})
