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
from faultline.bot.intake.payload_fields import is_test_text
from faultline.bot.intake.sources.alertmanager import read_alertmanager
from faultline.bot.intake.sources.azure_monitor import read_azure_alert
from faultline.bot.intake.sources.cloudwatch_alarms import read_alarm
from faultline.bot.intake.sources.datadog import read_datadog
from faultline.bot.intake.sources.incident_io import read_incident_io
from faultline.bot.intake.sources.pagerduty import read_pagerduty
from faultline.bot.intake.sources.rootly import read_rootly
from faultline.bot.intake.sources.sentry import read_sentry
from faultline.bot.intake.sources.webhook import read_webhook
from faultline.bot.policy.relation import traits_of
from faultline.bot.policy.services import ServiceTopology
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
            "incident_io": read_incident_io,
            "rootly": read_rootly,
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


RABBIT = {"queue": "checkout.orders", "vhost": "/", "instance": "rabbit-0:15692", "job": "rabbitmq"}
SCRAPED = {"endpoint": "metrics", "container": "controller", "pod": "controller-0"}
UNFORESEEN: list[tuple[dict[str, str], str, str, str]] = [
    (
        {"consumergroup": "checkout-worker", "topic": "orders", "job": "kafka-exporter"},
        "sum by (consumergroup) (kafka_consumergroup_lag) > 50",
        "checkout-worker",
        "checkout-worker",
    ),
    (RABBIT, "rabbitmq_queue_messages_ready > 1000", "checkout", "checkout.orders"),
    (
        {"job": "postgres-exporter", "server": "orders-db:5432", "instance": "pg:9187"},
        "pg_up == 0",
        "orders-db",
        "orders-db",
    ),
    ({"kind": "Kustomization", "name": "checkout", "namespace": "shop"}, "", *["checkout"] * 2),
    (
        {**SCRAPED, "name": "checkout", "job": "argocd-metrics", "service": "argocd-metrics"},
        'argocd_app_info{sync_status="OutOfSync"} == 1',
        *["checkout"] * 2,
    ),
    (
        {**SCRAPED, "name": "checkout-tls", "job": "cert-manager", "service": "cert-manager"},
        "certmanager_certificate_expiration_timestamp_seconds - time() < 86400",
        *["checkout"] * 2,
    ),
    (
        {"ingress": "checkout", "exported_service": "checkout-http", "service": "ingress-nginx"},
        "sum by (ingress, exported_service) (rate(nginx_ingress_controller_requests[5m])) > 1",
        *["checkout-http"] * 2,
    ),
    (
        {**SCRAPE, "horizontalpodautoscaler": "keda-hpa-checkout"},
        "kube_horizontalpodautoscaler_status_current_replicas == 10",
        *["checkout"] * 2,
    ),
    (
        {"addr": "redis://orders-cache:6379", "job": "redis-exporter", "instance": "redis:9121"},
        "redis_memory_used_bytes > 1000",
        *["orders-cache"] * 2,
    ),
    (
        {"service_name": "checkout", "job": "otel-collector", "service": "otel-collector"},
        "sum by (service_name) (rate(traces_spanmetrics_calls_total[5m])) > 1",
        *["checkout"] * 2,
    ),
    (
        {"envoy_cluster_name": "outbound|80||checkout.shop.svc.cluster.local", "job": "envoy"},
        "sum by (envoy_cluster_name) (rate(envoy_cluster_upstream_rq_xx[5m])) > 1",
        *["checkout"] * 2,
    ),
    (
        {"exported_service": "shop-checkout-http@kubernetes", "service": "traefik"},
        "rate(traefik_service_requests_total[5m]) > 1",
        "checkout",
        "shop-checkout-http",
    ),
    (
        {"name": "checkout", "image": "acme/checkout:2.3", "job": "cadvisor"},
        "time() - container_last_seen > 60",
        *["checkout"] * 2,
    ),
    (
        {"cluster": "search-prod", "instance": "es-exporter:9114", "job": "elasticsearch-exporter"},
        'elasticsearch_cluster_health_status{color="red"} == 1',
        *["search-prod"] * 2,
    ),
    (
        {"instance": "orders-db-replica:9104", "job": "mysql"},
        "mysql_slave_status_seconds_behind_master > 30",
        *["orders-db-replica"] * 2,
    ),
    (
        {"proxy": "checkout", "instance": "lb-1:8405", "job": "haproxy"},
        "sum by (proxy) (rate(haproxy_server_http_responses_total[1m])) > 1",
        *["checkout"] * 2,
    ),
    (
        {"application": "checkout", "area": "heap", "job": "spring"},
        "jvm_memory_used_bytes / jvm_memory_max_bytes > 0.9",
        *["checkout"] * 2,
    ),
    (
        {
            **SCRAPED,
            "pvc": "data-ledger-0",
            "service": "longhorn-backend",
            "job": "longhorn-backend",
            "container": "longhorn-manager",
            "pod": "longhorn-manager-x2x1p",
        },
        "longhorn_volume_actual_size_bytes / longhorn_volume_capacity_bytes > 0.9",
        *["ledger"] * 2,
    ),
    (
        {"name": "orders.tasks.charge", "queue_name": "checkout", "job": "celery-exporter"},
        "increase(celery_task_failed_total[10m]) > 5",
        *["checkout"] * 2,
    ),
]
"""Labels, the rule, and the service with a catalogue and without."""


@pytest.mark.parametrize(("labels", "expression", "catalogued", "bare"), UNFORESEEN)
def test_exporters_and_controllers_that_nobody_had_in_mind(
    labels: dict[str, str], expression: str, catalogued: str, bare: str
) -> None:
    assert alertmanager(labels, expression, CATALOGUE).service == catalogued
    assert alertmanager(labels, expression).service == bare


def test_a_tag_in_the_title_names_the_service() -> None:
    incident = {
        "id": "PX1",
        "title": "[Triggered on {kube_namespace:shop,service:checkout}] High error rate",
        "created_at": "2026-11-28T13:59:00Z",
        "service": {"id": "PS", "summary": "Platform"},
    }
    body = {"event": {"id": "E", "event_type": "incident.triggered", "data": incident}}
    (alert,) = read_all("pagerduty", body, NO_CATALOGUE)
    assert (alert.service, alert.service_from) == ("checkout", "the tag service in its text")


def test_a_machine_is_a_service_only_where_nothing_else_is_named() -> None:
    problem = {"type": "PROBLEM", "host": "web-3", "check": "checkout HTTP", "state": "CRITICAL"}
    (alert,) = read_all("webhook-nagios", problem)
    assert (alert.service, alert.host) == ("checkout", "web-3")


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


@pytest.mark.parametrize(
    ("labels", "expression", "host"),
    [
        (
            {"instance": "web-3:9100", "job": "node-exporter"},
            "node_filesystem_avail_bytes < 5",
            "web-3",
        ),
        ({"instance": "10.0.0.7:9182", "job": "win"}, "windows_cpu_time_total > 1", "10.0.0.7"),
        ({"instance": "web-3:9100", "job": "monitoring/node-exporter"}, "", "web-3"),
        (
            {"instance": "switch-2", "job": "snmp"},
            "ifOperStatus == 2",
            "switch-2",
        ),
        (
            {"instance": "10.1.2.3:8080", "node": "worker-3"},
            "kube_node_status_condition == 0",
            "worker-3",
        ),
        ({"instance": "10.1.2.3:8080", "service": "checkout"}, "http_requests_total > 1", None),
        ({"instance": "https://shop.example.com", "job": "node"}, "probe_success == 0", None),
    ],
)
def test_an_alert_about_a_machine_names_it(
    labels: dict[str, str], expression: str, host: str | None
) -> None:
    alert = alertmanager(labels, expression)
    assert alert.host == host
    if host is not None:
        assert alert.service is None


def test_two_alerts_about_one_machine_have_it_in_common() -> None:
    settings = Settings.model_validate(NO_CATALOGUE)
    topology = ServiceTopology.of(settings)
    exporter = alertmanager({"instance": "web-3:9100", "job": "node-exporter"})
    other = exporter.model_copy(update={"host": None, "labels": {"host": "WEB-3"}})
    hosts = [traits_of(alert, settings, topology).hosts for alert in (exporter, other)]
    assert hosts == [frozenset({"web-3"})] * 2


FUTURE = (NOW + timedelta(hours=2)).isoformat()
IN_TWO_HOURS: dict[str, tuple[str, dict[str, Any], str]] = {
    "sentry": (
        "sentry",
        {
            "action": "critical",
            "data": {
                "metric_alert": {"id": "7", "date_detected": FUTURE, "projects": ["checkout"]}
            },
        },
        "its project in Sentry",
    ),
    "rootly": (
        "rootly",
        {
            "event": {"id": "1", "type": "incident.created", "issued_at": NOW.isoformat()},
            "data": {
                "id": "2",
                "title": "Errors",
                "started_at": FUTURE,
                "services": [{"name": "Checkout", "slug": "checkout"}],
            },
        },
        "its service in Rootly",
    ),
    "incident_io": (
        "incident_io",
        {
            "event_type": "public_incident.incident_created_v2",
            "public_incident.incident_created_v2": {
                "id": "3",
                "name": "Errors",
                "created_at": FUTURE,
                "incident_status": {"category": "live"},
                "custom_field_entries": [
                    {
                        "custom_field": {"name": "Affected service"},
                        "values": [{"value_text": "checkout"}],
                    }
                ],
            },
        },
        "its field Affected service",
    ),
    "zabbix": (
        "webhook-zabbix",
        {"name": "Errors", "event_value": "1", "service": "checkout", "timestamp": FUTURE},
        "what the sender calls its service",
    ),
}


@pytest.mark.parametrize("sender", IN_TWO_HOURS)
def test_every_sender_has_a_clock_and_a_reason_for_the_service(sender: str) -> None:
    route, body, source = IN_TWO_HOURS[sender]
    (alert,) = read_all(route, body)
    assert (alert.service, alert.service_from) == ("checkout", source)
    assert alert.started_at == NOW
    assert "clock is ahead" in " ".join(alert.notes)


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


def test_a_rule_of_azures_prometheus_brings_its_labels_and_its_expression() -> None:
    _, body = payload("45")
    body["data"]["essentials"] |= {"monitoringService": "Prometheus", "signalType": "Metric"}
    body["data"]["alertContext"] = {
        "expression": "rate(kube_pod_container_status_restarts_total[5m]) > 0",
        "labels": {
            "alertname": "KubePodCrashLooping",
            "container": "ledger",
            "namespace": "shop",
            "pod": "ledger-7c9f6d5b8-x2x1p",
        },
        "annotations": {"description": "Pod shop/ledger-7c9f6d5b8-x2x1p is crash looping"},
    }
    (alert,) = read_all("azure", body, NO_CATALOGUE)
    assert (alert.service, alert.service_from) == ("ledger", "its label container")
    assert alert.query is not None
    assert alert.query.language == "promql"
    assert "crash looping" in (alert.summary or "")


def test_test_buttons_start_nothing() -> None:
    route, body = payload("61")
    read = read_all(route, body)
    assert isinstance(read, Ignored)
    assert "test" in read.reason
    _, azure = payload("45")
    azure["data"]["essentials"]["alertRule"] = "test-metricAlertRule"
    assert isinstance(read_all("azure", azure), Ignored)


# Bodies of test buttons as people published them, with invented names.
TESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "New Relic workflow": (
        "new_relic",
        {
            "id": "d1b1f3fd-995a-4066-88ab-8ce4f6960654",
            "title": "Memory Used % > 90 for at least 2 minutes on 'Some-Entity'",
            "priority": "CRITICAL",
            "impactedEntities": ["logs.itg.cloud", "MonitorTTFB query"],
            "state": "ACTIVATED",
            "createdAt": 1617881246260,
        },
    ),
    "New Relic channel": (
        "new_relic",
        {
            "current_state": "test",
            "details": "New Relic Alert - Channel Test",
            "event_type": "NOTIFICATION",
            "incident_id": 0,
        },
    ),
    "Grafana OnCall, webhook": (
        "grafana_oncall",
        {
            "event": {"type": "alert group created"},
            "alert_group": {"state": "firing", "title": "TestAlert: The whole system is down"},
            "alert_group_id": "I1",
            "alert_payload": {},
        },
    ),
    "Grafana OnCall, Alertmanager": (
        "grafana_oncall",
        {
            "event": {"type": "alert group created"},
            "alert_group": {"state": "firing", "title": "[firing:1] InstanceDown"},
            "alert_group_id": "I1",
            "alert_payload": {
                "commonAnnotations": {
                    "description": "This alert was sent by user for demonstration purposes"
                }
            },
        },
    ),
    "Opsgenie": (
        "opsgenie",
        {"action": "Create", "alert": {"alertId": "1", "message": "Test notification"}},
    ),
    "Splunk On-Call": (
        "splunk_oncall",
        {"entity_id": "test", "title": "This is a test incident.", "phase": "UNACKED"},
    ),
    "Dynatrace": (
        "dynatrace",
        {
            "PID": "99999",
            "ProblemTitle": "Dynatrace problem notification test run",
            "State": "OPEN",
        },
    ),
}


@pytest.mark.parametrize("button", TESTS)
def test_the_button_of_a_preset_starts_nothing(button: str) -> None:
    preset, body = TESTS[button]
    read = read_all(f"webhook-{preset}", body)
    assert isinstance(read, Ignored)
    assert "test" in read.reason


@pytest.mark.parametrize(
    "title",
    ["Test environment is down", "test alert", "This is a test of the pump", "Testing queue"],
)
def test_an_alert_that_speaks_of_tests_is_none(title: str) -> None:
    assert not is_test_text(title)


def test_an_acknowledgement_starts_nothing() -> None:
    route, body = payload("57")
    assert isinstance(read_all(route, body), Ignored)


@pytest.mark.parametrize(
    ("number", "title", "severity"),
    [
        ("05", "CPUThrottlingHigh", "info"),
        ("06", "KubeDeploymentReplicasMismatch", "warning"),
        ("10", "IstioHigh5xx", "page"),
        ("18", "HighLatency", "critical"),
        ("20", "CheckoutHighErrorRate", "critical"),
        ("24", "Checkout errors", "P1"),
        ("29", "payments-api-invocations-anomaly", None),
        ("41", "TypeError: null", "error"),
        ("46", "heartbeat", "Sev1"),
    ],
)
def test_ordinary_payloads_fire_with_title_and_severity(
    number: str, title: str, severity: str | None
) -> None:
    alert = read(number, NO_CATALOGUE)
    assert (alert.status, alert.title, alert.severity) == ("firing", title, severity)
    assert not alert.no_data
