"""Who uses a database, and which user takes it over, by exporters that a real Prometheus has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, OpenMetrics, running_prometheus

INTERVAL_S = 30
END = int(ALERT_AT.timestamp()) + 600
STARTED = END - 900
DATABASES = {
    # By user: statement time in s/s before and since the job started; ten statements take a second,
    # unless they wait.
    "orders-db": {"orders": (0.6, 0.6), "nightly_export": (0.0, 4.0)},
    "users-db": {"users": (0.8, 0.8), "reports_rw": (0.1, 3.0)},
    "ledger-db": {"app": (0.5, 0.5), "etl": (0.0, 2.0)},
    # Who asks for no more waits longer than the job takes.
    "fares-db": {"fares": (0.3, 60.0), "reindex_all": (0.0, 7.0)},
    # Everybody asks more.
    "stock-db": {"stock": (0.4, 4.0), "cart": (0.4, 4.0)},
    # Every ten minutes, as in the hours before.
    "mails-db": {"mails": (0.2, 0.2), "sweeper": (0.0, 0.0)},
}
KSM = 'job="kube-state-metrics",instance="10.244.0.31:8080"'


def samples() -> str:
    series = OpenMetrics()
    counts: dict[tuple[str, str], float] = {}
    for t in range(END - 4 * 3600, END, INTERVAL_S):
        for service in ("orders", "users", "reports", "cart", "stock", "checkout"):
            labels = f'service="{service}",code="200"'
            series.add("http_requests_total", "counter", labels, 5 * (t - END + 4 * 3600), t)
        for database, users in DATABASES.items():
            for user, (before, since) in users.items():
                taken = since if t >= STARTED else before
                if user == "sweeper" and t % 600 < 120:
                    taken = 3.0
                total = counts.get((database, user), 0.0) + INTERVAL_S * taken
                counts[database, user] = total
                if total:
                    labels = f'job="{database}-exporter",instance="{database}:9187",user="{user}"'
                    labels += f',datname="{database}",queryid="1"'
                    series.add("pg_stat_statements_seconds_total", "counter", labels, total, t)
                    calls = 3.0 * (t - END) if user == "fares" else 10 * total
                    series.add("pg_stat_statements_calls_total", "counter", labels, calls, t)
        add_jobs(series, t)
    return series.finished()


def add_jobs(series: OpenMetrics, t: int) -> None:
    """A CronJob's run that began before the alert, and one of every five minutes."""
    often = f'{KSM},namespace="ops",job_name="probe-{t // 300 + 29_000_000}"'
    series.add("kube_job_status_start_time", "gauge", often, t - t % 300, t)
    if t >= STARTED:
        run = f'{KSM},namespace="batch",job_name="nightly-export-29871123"'
        series.add("kube_job_status_start_time", "gauge", run, STARTED, t)
        running = f'{KSM},namespace="batch",job_name="reindex-all"'
        series.add("kube_job_status_start_time", "gauge", running, STARTED, t)
        owner = f'{run},owner_kind="CronJob",owner_name="nightly-export"'
        series.add("kube_job_owner", "gauge", owner, 1, t)


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    folder = tmp_path_factory.mktemp("users")
    start = ALERT_AT - timedelta(minutes=30)
    alert = Alert(
        source="alertmanager", title="checkout fails", started_at=ALERT_AT, service="checkout"
    )
    scope = Scope(
        incident=Window(start=start, end=ALERT_AT + timedelta(seconds=600)),
        baseline=(Window(start=start - timedelta(hours=2), end=start),),
        services=("checkout", "cart"),
    )
    with running_prometheus(folder, samples()) as prometheus:
        connector = PrometheusConnector(prometheus.url)
        yield asyncio.run(collect_from(connector, Request(alert, scope, Path(folder))))


def test_the_user_that_takes_a_database_over_is_a_fact(collection: Collected) -> None:
    states = conform(collection.tables["states"], "states", "states")
    facts = {
        (row["kind"], row["name"], row["fact"], row["service"]): row["value"]
        for row in states.to_dicts()
    }
    took_over = "takes_over_database"
    assert facts == {
        ("CronJob", "nightly-export", took_over, "orders-db"): (
            "87 % of orders-db's statement time (none before)"
        ),
        ("Service", "reports", took_over, "users-db"): (
            "78 % of users-db's statement time (11 % before)"
        ),
        ("Job", "reindex-all", took_over, "fares-db"): (
            "23x as much of fares-db's statement time as all users before"
        ),
        ("Database", "ledger-db", "taken_over_by_user", "ledger-db"): (
            "etl takes 80 % of its statement time (none before)"
        ),
    }


def test_a_user_that_is_called_like_a_service_calls_the_database(collection: Collected) -> None:
    calls = conform(collection.tables["topology"], "topology", "topology")
    assert set(calls.select("caller", "callee", "source").iter_rows()) == {
        ("orders", "orders-db", "database_users"),
        ("users", "users-db", "database_users"),
        ("reports", "users-db", "database_users"),
        ("stock", "stock-db", "database_users"),
        ("cart", "stock-db", "database_users"),
    }


def test_a_job_that_seldom_starts_is_a_change(collection: Collected) -> None:
    changes = conform(collection.tables["changes"], "changes", "changes")
    assert {row["service"]: row["title"] for row in changes.to_dicts()} == {
        "nightly-export": "CronJob batch/nightly-export started nightly-export-29871123",
        "reindex-all": "Job batch/reindex-all started",
    }
    assert set(changes["kind"]) == {"job"}
    assert {time.timestamp() for time in changes["time"]} == {STARTED}
