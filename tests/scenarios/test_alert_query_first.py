"""The alert's own query is asked before anything else, of a real Prometheus, and it decides whether
something is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from faultline.analysis.alert_signal.deriving import with_watched_signal
from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Link, Report, Verdict
from faultline.bot.answer.writer.built_in import word
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.investigation.scoping import scope_for
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

ONSET = ALERT_AT - timedelta(minutes=10)
DAY = timedelta(days=1)
Level = Callable[[float], float | None]
"""A value by minutes after the onset; on earlier days by minutes after the same time of day."""


@dataclass(frozen=True)
class Series:
    """One series: its level on the day of the incident, and on how many days before which."""

    labels: str
    level: Level
    earlier: Level | None = None
    days: int = 0


@dataclass(frozen=True)
class Answer:
    """What was collected, decided and said."""

    case: Case
    diagnosis: Diagnosis
    report: Report

    def sentence(self, kind: str) -> str:
        """The sentence of the one finding of that kind."""
        (finding,) = [f for f in self.diagnosis.findings if f.kind == kind]
        return finding.sentence


def history(metric: str, every: Sequence[Series]) -> str:
    written = OpenMetrics()
    for series in every:
        for day in range(series.days, -1, -1):
            level = series.level if day == 0 else series.earlier
            for minute in range(-170 if day == 0 else -60, 15):
                value = level(minute) if level is not None else None
                if value is not None:
                    at = ONSET - day * DAY + timedelta(minutes=minute)
                    written.add(metric, "gauge", series.labels, value, int(at.timestamp()))
    return written.finished()


def answer_about(
    folder: Path, connectors: Sequence[Connector], expression: str, **labels: str
) -> Answer:
    alert = Alert(
        source="alertmanager",
        title=labels.get("alertname", "RefundBacklog"),
        started_at=ALERT_AT,
        service=labels.get("service"),
        labels=labels,
        links=(Link(title="source", url=f"http://prom/graph?g0.expr={quote(expression)}"),),
    )
    alert = with_watched_signal(alert)
    scope = scope_for(alert, Settings(), now=ALERT_AT + timedelta(minutes=4))
    cases = CaseStore(folder / "cases")
    every = [*connectors, AlertQueryConnector(connectors)]

    async def collected() -> None:
        for connector in every:
            await collect_part(connector, alert, scope, cases, "case")

    asyncio.run(collected())
    assemble(alert, scope, [connector.name for connector in every], cases, "case")
    with cases.checkout("case") as checked_out:
        case = read_case(checked_out)
        diagnosis = diagnose(case)
        return Answer(case, diagnosis, word(diagnosis, case.alert, case.gaps))


def test_only_the_label_sets_that_the_alert_names_count(tmp_path: Path) -> None:
    rising = Series('service="refunds"', lambda minute: 40 if minute < 0 else 2880)
    elsewhere = Series('service="billing"', lambda _: 900)
    with running_prometheus(tmp_path, history("backlog", [rising, elsewhere])) as server:
        connectors = [PrometheusConnector(server.url)]
        named = answer_about(tmp_path, connectors, "backlog > 500", service="refunds")
        whole = answer_about(tmp_path, connectors, "backlog > 500", alertname="Backlogs")
    assert "since 11:50 UTC: " in named.sentence("alert_true")
    assert "since before" in whole.sentence("alert_true")


def test_a_backlog_that_no_default_query_knows_is_no_all_clear(tmp_path: Path) -> None:
    rising = Series(
        'service="refunds",namespace="prod"',
        lambda minute: 40 + (minute % 3) if minute < 0 else min(2880, 40 + 600 * (minute + 1)),
        lambda minute: 40 + (minute % 5),
        days=8,
    )
    with running_prometheus(tmp_path, history("refunds_backlog", [rising])) as server:
        answer = answer_about(
            tmp_path,
            [PrometheusConnector(server.url)],
            "refunds_backlog > 500",
            service="refunds",
            namespace="prod",
        )
    assert answer.diagnosis.verdict is not Verdict.NO_ACTIVE_INCIDENT
    said = answer.sentence("alert_true")
    assert "true since 01:50 UTC" in said or "true since" in said
    assert "2,880" in said.replace("2,900", "2,880")
    assert "threshold of 500" in said
    assert "in namespace prod" in said
    assert "not true on any of 7 earlier days" in said
    assert answer.case.alert.signal == "refunds_backlog"
    assert answer.case.alert.threshold == 500


def test_an_alert_of_no_service_is_judged_by_its_query(tmp_path: Path) -> None:
    rising = Series("", lambda minute: 40 + (minute % 3) if minute < 0 else 2880)
    with running_prometheus(tmp_path, history("refunds_backlog", [rising])) as server:
        answer = answer_about(tmp_path, [PrometheusConnector(server.url)], "refunds_backlog > 500")
    assert answer.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert "threshold of 500" in answer.sentence("alert_true")


def test_what_is_true_every_night_without_harm_is_noise(tmp_path: Path) -> None:
    nightly = Series(
        'service="refunds"',
        lambda minute: 0.11 if minute >= 0 else 0.02,
        lambda minute: 0.11 if 0 <= minute < 15 else 0.02,
        days=6,
    )
    with running_prometheus(tmp_path, history("refunds_lag", [nightly])) as server:
        answer = answer_about(
            tmp_path, [PrometheusConnector(server.url)], "refunds_lag > 0.1", service="refunds"
        )
    assert answer.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    assert "true on 6 of the last 6 days at this hour" in answer.report.headline
    assert any("Raise the threshold above 0.12" in step.text for step in answer.report.next_steps)


def test_a_series_that_vanished_is_said_and_is_no_all_clear(tmp_path: Path) -> None:
    ended = Series('service="refunds"', lambda minute: 40 if minute < -8 else None)
    with running_prometheus(tmp_path, history("refunds_backlog", [ended])) as server:
        answer = answer_about(
            tmp_path, [PrometheusConnector(server.url)], "refunds_backlog > 500", service="refunds"
        )
    assert answer.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert "has had no data since" in answer.sentence("alert_query_gone")


@pytest.mark.parametrize("connected", [True, False])
def test_a_query_that_could_not_be_asked_is_the_first_gap(tmp_path: Path, connected: bool) -> None:
    calm = Series('service="refunds"', lambda minute: 5)
    with running_prometheus(tmp_path, history("http_requests_in_flight", [calm])) as server:
        answer = answer_about(
            tmp_path,
            [PrometheusConnector(server.url)] if connected else [],
            "refunds_backlog > 500",
            service="refunds",
        )
    assert answer.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert "alert's own query" in answer.diagnosis.missing[0]


def test_a_rule_that_is_not_true_here_is_said(tmp_path: Path) -> None:
    calm = Series('service="refunds"', lambda minute: 40 + minute % 3)
    with running_prometheus(tmp_path, history("refunds_backlog", [calm])) as server:
        answer = answer_about(
            tmp_path, [PrometheusConnector(server.url)], "refunds_backlog > 500", service="refunds"
        )
    assert answer.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    assert "was not true here" in answer.report.headline


def test_a_scrape_that_fails_is_true_and_opens_no_gate(tmp_path: Path) -> None:
    down = Series(
        'job="redis-exporter",service="cache-exporter"', lambda minute: 1 if minute < 0 else 0
    )
    with running_prometheus(tmp_path, history("up", [down])) as server:
        answer = answer_about(
            tmp_path,
            [PrometheusConnector(server.url)],
            'up{job="redis-exporter"} == 0',
            service="cache-exporter",
            job="redis-exporter",
        )
    sentence = answer.sentence("alert_true")
    assert "went from 1 to 0" in sentence
    assert "threshold" not in sentence


def test_a_rule_that_was_true_before_anything_was_asked_is_no_new_incident(tmp_path: Path) -> None:
    always = Series('service="refunds"', lambda minute: 900 + minute % 3)
    with running_prometheus(tmp_path, history("refunds_backlog", [always])) as server:
        answer = answer_about(
            tmp_path, [PrometheusConnector(server.url)], "refunds_backlog > 500", service="refunds"
        )
    assert "has been true since before" in answer.sentence("alert_true")
    assert answer.diagnosis.verdict is not Verdict.CAUSE_FOUND


def test_a_scrape_jobs_error_ratio_is_told_as_a_share_of_one_service(tmp_path: Path) -> None:
    times = "http_server_request_duration_seconds"
    written = OpenMetrics()
    totals = {"200": 0.0, "500": 0.0}
    for minute in range(-170, 15):
        failing = 300 if minute >= 0 else 1
        totals["200"] += 1000 - failing
        totals["500"] += failing
        at = int((ONSET + timedelta(minutes=minute)).timestamp())
        for code, total in totals.items():
            labels = f'job="prod/telemetry",http_response_status_code="{code}"'
            written.add(f"{times}_count", "counter", labels, total, at)
    failed = f'sum by (job) (rate({times}_count{{http_response_status_code=~"5.."}}[5m]))'
    rule = f"{failed} / sum by (job) (rate({times}_count[5m])) > 0.1"
    with running_prometheus(tmp_path, written.finished()) as server:
        answer = answer_about(
            tmp_path, [PrometheusConnector(server.url)], rule, job="prod/telemetry"
        )
    assert answer.case.alert.service == "telemetry"
    assert set(answer.case.metrics["service"]) == {"telemetry"}
    told = " ".join([answer.report.headline, *(f.sentence for f in answer.diagnosis.findings)])
    assert "slower" not in told
    assert "30 %" in told


def ratio_in(place: str, value: float) -> Series:
    return Series(place, lambda minute: (0.002 if minute < 0 else value) + 0.0001 * (minute % 3))


PLACES = {
    "namespace": 'service="checkout",namespace="{}"',
    "cluster": 'service="checkout",cluster="{}"',
    "environment": 'service="checkout",env="{}"',
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_service_that_is_as_usual_elsewhere_is_said_to_be(tmp_path: Path, kind: str) -> None:
    every = [ratio_in(PLACES[kind].format("prod"), 0.36)]
    every += [ratio_in(PLACES[kind].format("staging"), 0.004)]
    every += [ratio_in(PLACES[kind].format("prod").replace("checkout", "cart"), 0.001)]
    place = {"environment": "env"}.get(kind, kind)
    with running_prometheus(tmp_path, history("checkout_error_ratio", every)) as server:
        answer = answer_about(
            tmp_path,
            [PrometheusConnector(server.url)],
            "checkout_error_ratio > 0.05",
            service="checkout",
            **{place: "prod"},
        )
    sentence = answer.sentence("alert_elsewhere_usual")
    assert f"true in {kind} prod only" in sentence
    assert "36 %" in sentence
    assert "0.42 % in staging" in sentence
    assert sentence in " ".join(claim.text for claim in answer.report.claims)


@pytest.mark.parametrize(
    ("other", "expression"),
    [
        # It fails there too.
        (ratio_in(PLACES["namespace"].format("staging"), 0.2), "checkout_error_ratio > 0.05"),
        # Another service is no comparison.
        (ratio_in('service="cart",namespace="staging"', 0.001), "checkout_error_ratio > 0.05"),
        # The rule is about one place alone.
        (
            ratio_in(PLACES["namespace"].format("staging"), 0.004),
            'checkout_error_ratio{namespace="prod"} > 0.05',
        ),
    ],
)
def test_places_that_cannot_be_compared_are_not(
    tmp_path: Path, other: Series, expression: str
) -> None:
    every = [ratio_in(PLACES["namespace"].format("prod"), 0.36), other]
    with running_prometheus(tmp_path, history("checkout_error_ratio", every)) as server:
        answer = answer_about(
            tmp_path,
            [PrometheusConnector(server.url)],
            expression,
            service="checkout",
            namespace="prod",
        )
    assert "alert_elsewhere_usual" not in {finding.kind for finding in answer.diagnosis.findings}
