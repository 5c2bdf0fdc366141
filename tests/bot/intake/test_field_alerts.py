"""What senders really post is read right: who it is about, what fired, its state and its place."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from faultline.analysis.alert_signal.deriving import with_watched_signal
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.sources.alertmanager import read_alertmanager
from faultline.bot.intake.sources.azure_monitor import read_azure_alert
from faultline.bot.intake.sources.cloudwatch_alarms import read_alarm
from faultline.bot.intake.sources.datadog import read_datadog
from faultline.bot.intake.sources.pagerduty import read_pagerduty
from faultline.bot.intake.sources.sentry import read_sentry
from faultline.bot.intake.sources.webhook import read_webhook
from faultline.bot.policy.values import Arrival
from faultline.bot.settings import Settings

FOLDER = Path(__file__).parents[2] / "data" / "field" / "alerts"
NOW = datetime(2026, 11, 28, 14, 0, tzinfo=UTC)
CATALOGUE: dict[str, Any] = {
    "alerts": {"oldest_days": 36_500},
    "services": {"checkout": {}, "payments": {}, "api": {}},
}
NO_CATALOGUE: dict[str, Any] = {"alerts": {"oldest_days": 36_500}}


def payload(number: str) -> tuple[str, Any]:
    (path,) = FOLDER.glob(f"{number}.*.json")
    return path.name.split(".")[1], json.loads(path.read_text())


def read_all(
    route: str, body: Any, catalogue: dict[str, Any] = CATALOGUE, now: datetime = NOW
) -> list[Alert] | Ignored:
    preset = route.removeprefix("webhook-") if route.startswith("webhook-") else None
    settings = Settings.model_validate({**catalogue, "webhook": {"preset": preset}})
    text = json.dumps(body).encode()
    if route == "sns":
        alarm = read_alarm(text.decode(), "eu-west-1", settings, now=now)
        return alarm if isinstance(alarm, Ignored) else [alarm]
    if preset:
        read: Any = read_webhook(text, settings, settings.webhook, sender="", now=now)
    else:
        readers: dict[str, Any] = {
            "alertmanager": read_alertmanager,
            "azure": read_azure_alert,
            "datadog": read_datadog,
            "pagerduty": read_pagerduty,
            "sentry": read_sentry,
        }
        read = readers[route](text, settings, now=now)
    if isinstance(read, Ignored):
        return read
    arrivals = [read] if isinstance(read, Arrival) else read
    return [with_watched_signal(arrival.alert, settings.services) for arrival in arrivals]


def read(number: str, catalogue: dict[str, Any] = CATALOGUE) -> Alert:
    route, body = payload(number)
    alerts = read_all(route, body, catalogue)
    assert not isinstance(alerts, Ignored), alerts
    (alert,) = alerts
    return alert


def alertmanager(
    labels: dict[str, Any],
    expression: str = "",
    catalogue: dict[str, Any] = NO_CATALOGUE,
    **rest: Any,
) -> Alert:
    fields = {"labels": {"alertname": "Rule", **labels}, "startsAt": "2026-11-28T13:30:00Z", **rest}
    if expression:
        fields["generatorURL"] = "http://prom:9090/graph?" + urlencode({"g0.expr": expression})
    alerts = read_all("alertmanager", {"status": "firing", "alerts": [fields]}, catalogue)
    assert not isinstance(alerts, Ignored), alerts
    return alerts[0]


@pytest.mark.parametrize("catalogue", [CATALOGUE, NO_CATALOGUE])
@pytest.mark.parametrize(
    ("number", "service", "source"),
    [
        ("02", "checkout", "the pod in its text"),
        ("04", "checkout", "its label container"),
        ("05", "payments-api", "its label container"),
        ("06", "checkout", "its label deployment"),
        ("10", "checkout", "its label destination_service_name"),
        ("11", "checkout", "its label service"),
        ("14", "checkout", "its label service"),
        ("18", "checkout", "its label service"),
        ("20", "checkout", "its label sloth_service"),
    ],
)
def test_the_object_is_named_and_never_the_exporter(
    number: str, service: str, source: str, catalogue: dict[str, Any]
) -> None:
    alert = read(number, catalogue)
    assert alert.service == service
    if catalogue is NO_CATALOGUE:
        assert alert.service_from == source


def test_the_place_is_kept() -> None:
    places = {}
    for number in ("02", "04", "14"):
        watched = read(number).watches
        assert watched is not None
        places[number] = watched.place
    assert places["02"]["namespace"] == "shop"
    assert (places["04"]["namespace"], places["04"]["cluster"]) == ("shop", "prod-eu")
    assert places["14"]["cluster"] == "prod-eu"


def test_a_rule_without_data_crossed_no_threshold() -> None:
    alert = read("11")
    assert (alert.no_data, alert.title) == (True, "Checkout error rate has no data")
    assert alert.watches is not None
    assert (alert.watches.signal_class, alert.watches.threshold) == (SignalClass.OTHER, None)


def test_grafanas_values_are_read() -> None:
    alert = read("14")
    assert alert.observed == 3.4
    assert alert.watches is not None
    assert (alert.watches.signal_class, alert.watches.threshold) == (SignalClass.LATENCY, 2)


SCRAPE = {
    "container": "kube-state-metrics",
    "endpoint": "http",
    "instance": "10.1.2.3:8080",
    "job": "kube-state-metrics",
    "pod": "mon-kube-state-metrics-6c8f5d7b9d-k2x4q",
    "service": "mon-kube-state-metrics",
    "namespace": "shop",
}


@pytest.mark.parametrize(
    ("labels", "expression", "service"),
    [
        ({"statefulset": "ledger"}, "kube_statefulset_replicas != 1", "ledger"),
        ({"daemonset": "logs"}, "kube_daemonset_status_number_ready < 3", "logs"),
        ({"job_name": "export-28391234"}, "kube_job_failed > 0", "export"),
        ({"cronjob": "export"}, "kube_cronjob_next_schedule_time > 0", "export"),
        ({"persistentvolumeclaim": "data-ledger-0"}, "", "ledger"),
        (
            {"exported_pod": "ledger-0", "exported_container": "app"},
            "kube_pod_status_ready < 1",
            "ledger",
        ),
        ({"deployment": "ledger", "service": "metrics"}, "", "ledger"),
        ({}, 'kube_deployment_status_replicas{deployment="ledger"} < 1', "ledger"),
        ({"node": "worker-3"}, "kube_node_status_condition == 0", None),
    ],
)
def test_kube_state_metrics_measures_others(
    labels: dict[str, str], expression: str, service: str | None
) -> None:
    assert alertmanager({**SCRAPE, **labels}, expression).service == service


def test_an_alert_on_the_exporter_itself_names_it() -> None:
    scrape = {**SCRAPE, "namespace": "monitoring"}
    assert alertmanager(scrape, 'up{job="kube-state-metrics"} == 0').service == SCRAPE["service"]


@pytest.mark.parametrize(
    ("labels", "service"),
    [
        ({"instance": "https://checkout.example.com/health", "job": "blackbox"}, "checkout"),
        ({"instance": "http://ledger-api.shop.svc:8080", "job": "probes"}, "ledger-api"),
        ({"instance": "https://www.example.com", "job": "blackbox-exporter"}, None),
        ({"instance": "10.0.0.7:9100", "job": "node-exporter"}, None),
        ({"slo": "ledger-requests-availability"}, "ledger"),
        ({"slo_service": "ledger", "job": "prometheus"}, "ledger"),
    ],
)
def test_probes_hosts_and_objectives(labels: dict[str, str], service: str | None) -> None:
    assert alertmanager(labels).service == service


def test_texts_count_against_the_catalogue_before_hints() -> None:
    labels = {"alertname": "CheckoutHighErrorRate", "job": "spring-apps"}
    assert alertmanager(labels, catalogue=CATALOGUE).service == "checkout"
    assert alertmanager(labels).service == "spring-apps"
    other = {"alertname": "Rule", "job": "spring-apps"}
    words = {"annotations": {"description": "payments-api is slow"}}
    assert alertmanager(other, catalogue=CATALOGUE, **words).service == "spring-apps"


@pytest.mark.parametrize(("ahead", "word"), [(2, "clock is ahead"), (9_600, "date is wrong")])
def test_a_start_in_the_future_is_the_arrival(ahead: int, word: str) -> None:
    start = (NOW + timedelta(hours=ahead)).isoformat()
    alert = alertmanager({"service": "checkout"}, startsAt=start)
    assert alert.started_at == NOW
    assert word in " ".join(alert.notes)
    assert alertmanager({"service": "checkout"}).notes == ()


def test_grafanas_test_button_starts_nothing() -> None:
    test = {"alerts": [{"labels": {"alertname": "TestAlert", "instance": "Grafana"}}]}
    assert isinstance(read_all("alertmanager", test), Ignored)


def test_datadogs_default_body_is_read() -> None:
    alert = read("22", NO_CATALOGUE)
    assert (alert.service, alert.title, alert.status) == ("checkout", "Checkout errors", "firing")
    route, body = payload("22")
    recovered = {**body, "title": "[Recovered on {service:checkout}] Checkout errors"}
    (over,) = read_all(route, recovered)
    assert (over.status, over.fingerprint) == ("resolved", alert.fingerprint)
    tested = {**body, "title": "[TEST] [Triggered on {service:checkout}] Checkout errors"}
    assert isinstance(read_all(route, tested), Ignored)


def test_fields_of_datadogs_alert_may_stand_beside_each_other() -> None:
    flat = {
        "alert_id": "7",
        "alert_transition": "Triggered",
        "alert_title": "[Triggered] Slow",
        "alert_scope": "service:ledger",
    }
    (alert,) = read_all("datadog", flat)
    assert (alert.service, alert.title) == ("ledger", "Slow")


def test_no_data_in_datadog_crossed_no_threshold() -> None:
    alert = read("23")
    assert (alert.service, alert.no_data, alert.signal) == ("checkout", True, None)
    assert alert.title == "Checkout errors has no data"
    assert alert.watches is not None
    assert (alert.watches.signal_class, alert.watches.threshold) == (SignalClass.OTHER, None)
    assert alert.watches.place["kube_cluster_name"] == "prod-eu"
    warned = read("24")
    assert (warned.service, warned.no_data) == ("checkout", False)


def watched_alarm(number: str, catalogue: dict[str, Any] = CATALOGUE) -> Alert:
    return with_watched_signal(read(number, catalogue))


def test_an_expression_of_metrics_has_its_own_threshold() -> None:
    alert = watched_alarm("30", NO_CATALOGUE)
    assert (alert.service, alert.signal, alert.threshold) == ("checkout-alb", None, 5)
    assert alert.query is not None
    assert alert.query.text == "100*HTTPCode_Target_5XX_Count/RequestCount"
    assert alert.watches is not None
    assert (alert.watches.signal_class, alert.watches.unit) == (SignalClass.ERRORS, "%")
    assert watched_alarm("30").service == "checkout"


def test_an_id_is_never_a_name() -> None:
    assert (read("90").service, read("90").service_from) == (
        "checkout",
        "the alarm's name and description",
    )
    assert read("90", NO_CATALOGUE).service == "checkout-tg"
    _, body = payload("90")
    body["AlarmName"] = "5xx"
    generated = {"name": "TargetGroup", "value": "targetgroup/943f017f100becff/943f017f100becff"}
    body["Trigger"]["Dimensions"] = [generated]
    (alert,) = read_all("sns", body)
    assert with_watched_signal(alert).service is None


def test_a_composite_alarm_is_known_by_its_children() -> None:
    composite = {
        "AlarmName": "shop-is-down",
        "NewStateValue": "ALARM",
        "AlarmRule": "ALARM(checkout-5xx) OR ALARM(search-5xx)",
        "TriggeringChildren": [{"Arn": "arn:aws:cloudwatch:eu-west-1:1:alarm:checkout-5xx"}],
    }
    (alert,) = read_all("sns", composite)
    assert alert.service == "checkout"


def test_an_alarm_without_data_has_no_threshold() -> None:
    route, body = payload("90")
    (alert,) = read_all(route, {**body, "NewStateValue": "INSUFFICIENT_DATA"})
    assert (alert.no_data, alert.signal, alert.threshold) == (True, None, None)


def test_the_other_vendors_payloads_name_their_service() -> None:
    services = {number: read(number, NO_CATALOGUE).service for number in ("29", "41", "45", "46")}
    assert services == {"29": "payments-api", "41": "checkout", "45": "checkout", "46": "checkout"}
    assert (read("45").threshold, read("45").service_from) == (10, "its dimension cloud_RoleName")


@pytest.mark.parametrize("service", ["Service Health", "ServiceHealth", "Resource Health"])
def test_azures_own_health_is_nobodys_service(service: str) -> None:
    _, body = payload("45")
    body["data"]["essentials"] |= {"monitoringService": service, "signalType": "Activity Log"}
    body["data"]["alertContext"] = {
        "properties": {"title": "Virtual Machines - West Europe", "service": "Virtual Machines"}
    }
    (alert,) = read_all("azure", body)
    assert (alert.service, alert.title) == (None, "Virtual Machines - West Europe")


def test_test_buttons_start_nothing() -> None:
    route, body = payload("61")
    read = read_all(route, body)
    assert isinstance(read, Ignored)
    assert "test" in read.reason
    _, azure = payload("45")
    azure["data"]["essentials"]["alertRule"] = "test-metricAlertRule"
    assert isinstance(read_all("azure", azure), Ignored)


def test_an_acknowledgement_starts_nothing() -> None:
    route, body = payload("57")
    assert isinstance(read_all(route, body), Ignored)
