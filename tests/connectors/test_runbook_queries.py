"""What runbooks add is asked besides everything else, and its evidence says who wanted it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import AddedQuery, Alert, LogWords, Scope, Window
from faultline.bot.settings import Settings
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.contract.base import Collected, Connector, Request
from faultline.connectors.vendors.datadog.connector import DatadogConnector
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import RunningPrometheus, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import datadog as datadog_stand_in
from tests.connectors.stand_ins import loki as loki_stand_in
from tests.connectors.stand_ins.aws import ALARM, AwsStandIn
from tests.connectors.stand_ins.aws import settings as aws_settings

BY = "runbook Queue"
WORDS = LogWords(words=("pool exhausted", 'a"b/c.*'), by=BY)


def with_added(
    connector: Connector, request: Request, *queries: tuple[str, str], words: LogWords | None = None
) -> Collected:
    """What comes when a runbook adds (signal, query) pairs for this connector, and one for another
    one."""
    added = [AddedQuery(connector=connector.name, signal=s, query=q, by=BY) for s, q in queries]
    added.append(AddedQuery(connector="another", signal="never", query="never", by=BY))
    scope = request.scope.model_copy(update={"queries": tuple(added), "log_words": words})
    return asyncio.run(connector.collect(replace(request, scope=scope)))


def asked_by_runbook(collected: Collected) -> list[str]:
    return [item.query for item in collected.items if item.details.get("asked_by") == BY]


def test_prometheus(prometheus: RunningPrometheus, tmp_path: Path) -> None:
    connector, request = PrometheusConnector(prometheus.url), request_for(tmp_path)
    before = asyncio.run(connector.collect(request))
    good = (
        "double_step",
        'max by (service) (training_step_time_seconds{training_job="llm-1"}) * 2',
    )
    collected = with_added(connector, request, good, ("broken", "sum("), ("gone", "no_such_metric"))
    assert asked_by_runbook(collected) == [good[1]]
    rows = collected.tables["metrics"].filter(signal="double_step")
    assert rows["value"].max() == 5.0
    gaps = {m.query for m in collected.missing} - {m.query for m in before.missing}
    assert gaps == {"sum(", "no_such_metric"}
    assert {i.query for i in before.items} <= {i.query for i in collected.items}


def test_a_runbook_hides_no_signal_that_is_asked_anyway(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url, queries={"depth": "vector(1)"})
    collected = with_added(connector, request_for(tmp_path), ("depth", "vector(2)"))
    assert collected.tables["metrics"].filter(signal="depth")["value"].unique().to_list() == [1.0]


def test_datadog(server: LocalServer, tmp_path: Path) -> None:
    datadog_stand_in.serve(server)
    connector = DatadogConnector("a" * 32, datadog_stand_in.APPLICATION_KEY, api_url=server.url)
    query = "avg(last_5m):avg:db.pool.waits{service:checkout} > 5"
    alert = Alert(
        source="test",
        title="x",
        started_at=datetime(2026, 3, 2, 12, tzinfo=UTC),
        service="checkout",
    )
    request = request_for(tmp_path, services=("checkout",), alert=alert)
    collected = with_added(
        connector, request, ("pool_waits", query), ("wrong", "logs"), words=WORDS
    )
    sent = [a.query["query"][0] for a in server.asked if a.path == "/api/v1/query"]
    assert "avg:db.pool.waits{service:checkout}" in sent
    searches = {
        json.loads(a.body)["filter"]["query"]
        for a in server.asked
        if a.path == "/api/v2/logs/events/search"
    }
    (search,) = (s for s in searches if "pool exhausted" in s)
    assert search.endswith('("pool exhausted" OR "a\\"b/c.*")')
    assert set(asked_by_runbook(collected)) >= {search}
    assert any(
        m.query == "logs" and "not a query of metrics" in m.reason for m in collected.missing
    )


def test_loki(server: LocalServer, tmp_path: Path) -> None:
    loki_stand_in.serve(server)
    connector = CONNECTORS["loki"].configured(
        Settings.model_validate(loki_stand_in.settings(server.url))
    )
    assert connector is not None
    collected = with_added(connector, request_for(tmp_path, services=("checkout",)), words=WORDS)
    sent = {a.query["query"][0] for a in server.asked if a.path == "/loki/api/v1/query_range"}
    (search,) = (q for q in sent if "pool exhausted" in q)
    assert search == '{service_name="checkout"} |~ "(?i)(pool exhausted|a\\"b/c\\\\.\\\\*)"'
    assert asked_by_runbook(collected) == [search, search]


def test_cloudwatch_logs(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    AwsStandIn(now).serve(server)
    connector = CONNECTORS["aws"].configured(Settings.model_validate(aws_settings(server.url)))
    assert connector is not None
    incident = Window(start=now - timedelta(minutes=30), end=now)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    scope = Scope(incident=incident, baseline=(baseline,), services=("checkout",))
    alert = Alert(source="cloudwatch", title=ALARM, started_at=now)
    collected = with_added(connector, Request(alert, scope, tmp_path), words=WORDS)
    searches = asked_by_runbook(collected)
    assert len(searches) == 2
    assert all(r'like /(?i)(pool exhausted|a"b\/c\.\*)/' in query for query in searches)
