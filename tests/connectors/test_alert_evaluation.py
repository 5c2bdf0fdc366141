"""Every connector that can evaluate an alert's own query gives the same rows: when it was true, in
which series, and how far it was from the threshold."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from faultline.analysis.alert_signal.deriving import with_watched_signal
from faultline.analysis.case.tables import empty
from faultline.analysis.kinds.signals import AlertQuery, SignalClass
from faultline.analysis.vocabulary import Alert, Link, Scope, Window
from faultline.bot.investigation import asking_alert
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.abilities import KnowsRules
from faultline.connectors.shared.contract.base import (
    Check,
    Collected,
    Connector,
    Item,
    Request,
    collect_from,
)
from faultline.connectors.shared.queries.alert_evaluation import EARLIER_DAYS, evaluated_windows
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.aws import CONNECTOR as AWS
from faultline.connectors.vendors.datadog import CONNECTOR as DATADOG
from faultline.connectors.vendors.datadog.metrics import rolled
from faultline.connectors.vendors.grafana.connector import GrafanaConnector
from faultline.connectors.vendors.grafana.managed_rules import (
    MANAGED_RULES,
    ManagedRule,
    queried_source,
)
from faultline.connectors.vendors.loki.connector import LokiConnector
from faultline.connectors.vendors.new_relic import CONNECTOR as NEW_RELIC
from faultline.connectors.vendors.new_relic.conditions import (
    NrqlCondition,
    condition_series,
    query_of_condition,
    timeseries,
)
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.connectors.conftest import ALERT_AT, ONSET, OpenMetrics, running_prometheus
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import aws as aws_stand_in
from tests.connectors.stand_ins import datadog as datadog_stand_in
from tests.connectors.stand_ins import new_relic as new_relic_stand_in
from tests.connectors.stand_ins.aws import ALARM, AwsStandIn

INCIDENT = Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT)
SCOPE = Scope(
    incident=INCIDENT,
    baseline=(Window(start=INCIDENT.start - timedelta(hours=2), end=INCIDENT.start),),
    services=("checkout",),
)
MINUTE = timedelta(minutes=1)


def alert_on(query: AlertQuery | None, **more: Any) -> Alert:
    return Alert(source="alertmanager", title="Slow", started_at=ALERT_AT, query=query, **more)


def asked_of(connector: Connector, alert: Alert, scope: Scope = SCOPE) -> Collected:
    request = Request(alert, scope, Path())
    return asyncio.run(collect_from(AlertQueryConnector([connector]), request))


def rows_of(collected: Collected) -> pl.DataFrame:
    assert not collected.missing
    return collected.tables["alert_query"]


def first_true(rows: pl.DataFrame) -> datetime:
    at = rows.filter(pl.col("is_true") > 0)["time"].min()
    assert isinstance(at, datetime)
    return at


def test_the_past_is_asked_at_the_hours_of_the_incident_in_a_bounded_number_of_points() -> None:
    recent, *earlier = evaluated_windows(SCOPE)
    assert recent.window == Window(start=SCOPE.baseline[0].start, end=INCIDENT.end)
    assert len(earlier) == EARLIER_DAYS
    for day, window in enumerate(earlier, start=1):
        assert window.window.end == INCIDENT.end - timedelta(days=day)
    points = sum(window.window.seconds / window.step_s for window in (recent, *earlier))
    assert points < 1000
    days = Scope(incident=Window(start=ALERT_AT - timedelta(days=2), end=ALERT_AT))
    assert sum(w.window.seconds / w.step_s for w in evaluated_windows(days)) < 2000


def written(levels: dict[str, Callable[[int], float | None]], metric: str = "depth") -> str:
    samples = OpenMetrics()
    for labels, level in levels.items():
        for minute in range(-150, 1):
            value = level(minute)
            if value is not None:
                at = int((ALERT_AT + minute * MINUTE).timestamp())
                samples.add(metric, "gauge", labels, value, at)
    return samples.finished()


@pytest.mark.parametrize(
    ("expression", "true"),
    [
        ("depth > 100", {"orders", "refunds"}),
        ('depth > 100 unless depth{queue="refunds"} > 0', {"orders"}),
        ('depth > 100 and on () depth{queue="refunds"} > 5000', set()),
        ('depth{queue="orders"} > on () group_left () depth{queue="idle"} * 20', {"orders"}),
        ("sum by (queue) (depth) > 100 or sum by (queue) (depth) > 100", {"orders", "refunds"}),
    ],
)
def test_prometheus_says_which_series_are_true(
    tmp_path: Path, expression: str, true: set[str]
) -> None:
    text = written(
        {
            'queue="orders"': lambda minute: 500 if minute >= -10 else 10,
            'queue="refunds"': lambda minute: 900 if minute >= -5 else 10,
            'queue="idle"': lambda minute: 1,
        }
    )
    alert = alert_on(AlertQuery(language="promql", text=expression))
    with running_prometheus(tmp_path, text) as server:
        rows = rows_of(asked_of(PrometheusConnector(server.url), alert))
    now = rows.filter(pl.col("time") > ALERT_AT - timedelta(minutes=2), pl.col("is_true") > 0)
    assert {json.loads(series)["queue"] for series in now["series"]} == true
    before = rows.filter(pl.col("time") < ALERT_AT - timedelta(minutes=11))
    assert before["value"].drop_nulls().len() > 0
    assert before["is_true"].sum() == 0
    if true == {"orders", "refunds"}:
        assert abs(first_true(rows) - (ALERT_AT - timedelta(minutes=10))) <= MINUTE


def test_an_absence_is_true_where_the_series_is_not(tmp_path: Path) -> None:
    text = written({'queue="orders"': lambda minute: 1 if minute < -20 else None})
    alert = alert_on(AlertQuery(language="promql", text='absent(depth{queue="orders"})'))
    with running_prometheus(tmp_path, text) as server:
        rows = rows_of(asked_of(PrometheusConnector(server.url), alert))
    # Prometheus repeats the last sample for five minutes.
    assert abs(first_true(rows) - (ALERT_AT - timedelta(minutes=16))) <= MINUTE


def test_a_server_without_the_series_is_a_gap(tmp_path: Path) -> None:
    text = written({'queue="orders"': lambda minute: 1})
    alert = alert_on(AlertQuery(language="promql", text="renamed_depth > 5"))
    with running_prometheus(tmp_path, text) as server:
        (gap,) = asked_of(PrometheusConnector(server.url), alert).missing
    assert (gap.kind, gap.source) == ("alert_query", "prometheus")
    assert "no series" in gap.reason


def test_a_server_that_fails_is_a_gap_with_its_reason(server: LocalServer) -> None:
    server.refusal = Reply({"status": "error", "error": "query timed out"}, status=503)
    alert = alert_on(AlertQuery(language="promql", text="depth > 5"))
    (gap,) = asked_of(PrometheusConnector(server.url), alert).missing
    assert gap.kind == "alert_query"
    assert "503" in gap.reason


def test_an_alert_without_a_query_asks_nothing(server: LocalServer) -> None:
    assert asked_of(PrometheusConnector(server.url), alert_on(None)) == Collected()
    assert not server.asked


def matrix(asked: Asked) -> Reply:
    """Ten until the onset, then 500, in the steps that were asked for."""
    start, end = (float(asked.query[name][0]) for name in ("start", "end"))
    # Loki's clients give times in ns.
    scale = 1e9 if start > 1e15 else 1.0
    step = float(asked.query["step"][0].rstrip("s"))
    values: list[tuple[float, str]] = []
    at = start / scale
    while at <= end / scale:
        late = at >= ONSET.timestamp()
        values.append((at, "500" if late else "10"))
        at += step
    series = {"metric": {"app": "checkout"}, "values": values}
    data = {"resultType": "matrix", "result": [series]}
    return Reply({"status": "success", "data": data})


def test_loki_counts_its_own_rules(server: LocalServer) -> None:
    server.on("/loki/api/v1/query_range", matrix)
    text = 'sum by (app) (count_over_time({app="checkout"} |= "declined" [5m])) > 100'
    alert = alert_on(AlertQuery(language="logql", text=text))
    rows = rows_of(asked_of(LokiConnector(server.url), alert))
    assert abs(first_true(rows) - ONSET) <= MINUTE
    assert set(rows["threshold"]) == {100.0}
    # The threshold is split off: what is counted has a value while the rule is not true.
    assert all("> 100" not in asked.query["query"][0] for asked in server.asked)
    assert rows.filter(pl.col("is_true") == 0)["value"].max() == 10


def node(ref: str, source: str, **model: Any) -> dict[str, Any]:
    return {"refId": ref, "datasourceUid": source, "model": {"refId": ref, **model}}


def grafana_rule(*nodes: dict[str, Any], condition: str = "C") -> dict[str, Any]:
    alert = {"title": "Slow", "uid": "cIBgcSjkk", "condition": condition, "data": list(nodes)}
    return {"expr": "", "for": "5m", "grafana_alert": alert}


QUERY = node(
    "A", "prom-1", expr="sum by (app) (depth)", datasource={"type": "prometheus", "uid": "prom-1"}
)
REDUCED = node("B", "__expr__", type="reduce", expression="A", reducer="last")
ABOVE = {"evaluator": {"type": "gt", "params": [100, 0]}, "query": {"params": ["A"]}}
RULES = {
    "reduce and threshold": grafana_rule(
        QUERY, REDUCED, node("C", "__expr__", type="threshold", expression="B", conditions=[ABOVE])
    ),
    "math": grafana_rule(
        QUERY, REDUCED, node("C", "__expr__", type="math", expression="${B} > 100")
    ),
    "classic": grafana_rule(
        QUERY, node("C", "-100", type="classic_conditions", conditions=[ABOVE])
    ),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_grafana_asks_its_data_source_and_knows_the_threshold(
    server: LocalServer, rule: dict[str, Any]
) -> None:
    server.on(MANAGED_RULES, Reply({"Shop": [{"name": "queues", "rules": [rule]}]}))
    server.on("/api/datasources/proxy/uid/prom-1/api/v1/query_range", matrix)
    # The rules API gives the expression without its threshold.
    query = AlertQuery(language="promql", text="sum by (app) (depth)")
    page = "https://grafana.example/alerting/grafana/cIBgcSjkk/view"
    alert = alert_on(query, links=(Link(title="rule", url=page),))
    collected = asked_of(GrafanaConnector(server.url), alert)
    rows = rows_of(collected)
    assert abs(first_true(rows) - ONSET) <= MINUTE
    assert set(rows["threshold"]) == {100.0}
    assert set(rows["comparison"]) == {">"}
    assert server.methods == {"GET"}
    # Without its threshold the expression would be true at all times.
    assert not PrometheusConnector(server.url).evaluates(alert)


@pytest.mark.parametrize(
    "rule",
    [
        grafana_rule(node("C", "__expr__", type="math", expression="$A / $B > 1")),
        grafana_rule(node("C", "__expr__", type="reduce", expression="C")),
        grafana_rule(node("C", "sql-1", rawSql="SELECT 1", datasource={"type": "mysql"})),
        grafana_rule(condition="X"),
        grafana_rule(
            QUERY,
            node("C", "__expr__", type="threshold", expression="A", conditions=[{"evaluator": 5}]),
        ),
    ],
)
def test_a_rule_of_grafana_that_is_no_single_query_is_not_evaluated(rule: dict[str, Any]) -> None:
    assert queried_source(msgspec.convert(rule, ManagedRule)) is None


def test_cloudwatch_holds_the_alarms_metric_against_its_threshold(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    cloud = AwsStandIn(now)
    cloud.serve(server)
    connector = AWS.configured(Settings.model_validate(aws_stand_in.settings(server.url)))
    assert connector is not None
    alert = Alert(source="cloudwatch", title=ALARM, started_at=now, labels={"alarm_name": ALARM})
    scope = Scope(incident=Window(start=now - timedelta(minutes=30), end=now))
    rows = rows_of(asked_of(connector, alert, scope))
    assert set(rows["comparison"]) == {">"}
    assert rows.filter(pl.col("is_true") > 0).height
    assert first_true(rows) >= cloud.onset - MINUTE
    # TargetResponseTime is in seconds, and told in milliseconds, as the threshold is.
    assert set(rows["threshold"]) == {1000.0}
    assert set(rows["unit"]) == {"ms"}


@pytest.fixture
def cloud(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> AwsStandIn:
    """AWS, whose balancer is slow from its onset on."""
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")
    stand_in = AwsStandIn(datetime.now(UTC).replace(second=0, microsecond=0))
    stand_in.serve(server)
    return stand_in


def alarmed(server: LocalServer, cloud: AwsStandIn) -> Collected:
    """What the alarm of the stand-in gives."""
    connector = AWS.configured(Settings.model_validate(aws_stand_in.settings(server.url)))
    assert connector is not None
    now = cloud.alert_at
    alert = Alert(source="cloudwatch", title=ALARM, started_at=now, labels={"alarm_name": ALARM})
    scope = Scope(incident=Window(start=now - timedelta(minutes=30), end=now))
    return asked_of(connector, alert, scope)


def test_cloudwatch_evaluates_metric_math(server: LocalServer, cloud: AwsStandIn) -> None:
    plain = cloud.alarm()
    metric = {name: plain.pop(name) for name in ("Namespace", "MetricName", "Dimensions")}
    stat = {"Metric": metric, "Stat": plain.pop("ExtendedStatistic"), "Period": plain.pop("Period")}
    parts = [
        {"Id": "m1", "MetricStat": stat, "ReturnData": False},
        {"Id": "e1", "Expression": "m1 * 100", "Label": "Slowness", "ReturnData": True},
    ]
    cloud.replies["DescribeAlarms"] = lambda _: {
        "MetricAlarms": [{**plain, "Metrics": parts, "Threshold": 50.0}]
    }

    def values(params: Any) -> dict[str, Any]:
        """The expression alone comes back, as ReturnData says."""
        assert [query["ReturnData"] for query in params["MetricDataQueries"]] == [False, True]
        period = params["MetricDataQueries"][0]["MetricStat"]["Period"]
        times = list(range(int(params["StartTime"]), int(params["EndTime"]), period))
        late = [at >= cloud.onset.timestamp() for at in times]
        result = {"Id": "e1", "Timestamps": times, "StatusCode": "Complete"}
        return {"MetricDataResults": [{**result, "Values": [90.0 if at else 5.0 for at in late]}]}

    cloud.replies["GetMetricData"] = values
    rows = rows_of(alarmed(server, cloud))
    assert set(rows["threshold"]) == {50.0}
    true = rows.filter(pl.col("is_true") > 0)
    assert set(true["value"]) == {90.0}
    assert abs(first_true(rows) - cloud.onset) <= MINUTE


def test_cloudwatch_evaluates_the_firing_child_of_a_composite_alarm(
    server: LocalServer, cloud: AwsStandIn
) -> None:
    calm = cloud.alarm() | {"AlarmName": "calm", "StateValue": "OK", "Threshold": 900.0}
    firing = cloud.alarm() | {"AlarmName": "firing"}

    def describe(params: Any) -> dict[str, Any]:
        if params.get("ChildrenOfAlarmName"):
            return {"MetricAlarms": [{"AlarmName": "calm"}, {"AlarmName": "firing"}]}
        if params.get("AlarmNames") == [ALARM]:
            rule = "ALARM(calm) OR ALARM(firing)"
            return {"CompositeAlarms": [{"AlarmName": ALARM, "AlarmRule": rule}]}
        return {"MetricAlarms": [calm, firing]}

    cloud.replies["DescribeAlarms"] = describe
    collected = alarmed(server, cloud)
    rows = rows_of(collected)
    assert set(rows["threshold"]) == {1000.0}
    assert rows.filter(pl.col("is_true") > 0).height
    assert "alarm firing" in collected.items[0].query


def test_a_composite_alarm_without_a_metric_is_a_gap(
    server: LocalServer, cloud: AwsStandIn
) -> None:
    rule = {"AlarmName": ALARM, "AlarmRule": "TRUE"}
    cloud.replies["DescribeAlarms"] = lambda _: {"CompositeAlarms": [rule]}
    (gap,) = alarmed(server, cloud).missing
    assert gap.kind == "alert_query"


class Evaluator:
    """A server that evaluates any query, in the way that it is given."""

    kinds = ("metrics",)
    limits = Limits()

    def __init__(self, name: str, answer: Callable[[], Awaitable[Collected]]) -> None:
        self.name = name
        self._answer = answer

    def evaluates(self, alert: Alert) -> bool:
        return True

    async def evaluate(self, request: Request) -> Collected:
        return await self._answer()

    async def collect(self, request: Request) -> Collected:
        raise NotImplementedError

    async def check(self) -> Check:
        raise NotImplementedError


async def broken() -> Collected:
    raise KeyError("metric")


async def silent() -> Collected:
    await asyncio.sleep(60)
    return Collected()


async def answering() -> Collected:
    row = (ALERT_AT, '{"queue": "orders"}', 1.0, 7.0, ">", 5.0, None)
    table = pl.DataFrame([row], schema=empty("alert_query").schema, orient="row")
    return Collected({"alert_query": table}, (Item("alert_query", "depth > 5", rows=1),))


QUERY_OF_ALL = AlertQuery(language="promql", text="depth > 5")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(broken, "could not be evaluated (KeyError)"), (silent, "no answer within")],
)
def test_the_fault_of_one_server_costs_no_other_servers_answer(
    fault: Callable[[], Awaitable[Collected]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_alert, "WITHIN_S", 0.2)
    request = Request(alert_on(QUERY_OF_ALL), SCOPE, Path())
    servers = [Evaluator("a", fault), Evaluator("b", answering)]
    both = asyncio.run(collect_from(AlertQueryConnector(servers), request))
    assert rows_of(both).height == 1
    assert [item.source for item in both.items] == ["b"]
    alone = asyncio.run(collect_from(AlertQueryConnector(servers[:1]), request))
    (gap,) = alone.missing
    assert (gap.kind, gap.source, gap.query) == ("alert_query", "a", "depth > 5")
    assert reason in gap.reason


def test_datadog_evaluates_the_monitors_expression(server: LocalServer) -> None:
    datadog_stand_in.serve(server)
    connector = DATADOG.configured(Settings.model_validate(datadog_stand_in.settings(server.url)))
    assert connector is not None
    alert = Alert(
        source="datadog",
        title="Checkout errors",
        started_at=ALERT_AT,
        query=AlertQuery(language="datadog", text=datadog_stand_in.QUERY),
    )
    rows = rows_of(asked_of(connector, alert))
    assert set(rows["threshold"]) == {50.0}
    assert json.loads(rows["series"][0])["service"] == "checkout"
    assert rows.filter(pl.col("is_true") > 0).height
    assert first_true(rows) >= ONSET - 2 * MINUTE


def test_new_relic_evaluates_the_condition_that_the_alert_names(server: LocalServer) -> None:
    new_relic_stand_in.serve(server)
    connector = NEW_RELIC.configured(
        Settings.model_validate(new_relic_stand_in.settings(server.url))
    )
    assert connector is not None
    labels = {"condition": "Checkout fails"}
    alert = Alert(source="new_relic", title="Issue", started_at=ALERT_AT, labels=labels)
    assert isinstance(connector, KnowsRules)
    rule = asyncio.run(connector.rule_of(alert))
    assert rule is not None
    assert (rule.language, rule.comparison, rule.threshold) == ("nrql", ">", 5.0)
    assert (rule.unit, rule.holds_for_s, rule.window_s) == ("%", 300, 60)
    alert = with_watched_signal(alert.model_copy(update={"query": rule}))
    assert alert.watches is not None
    assert alert.watches.signal_class is SignalClass.ERRORS
    rows = rows_of(asked_of(connector, alert))
    assert first_true(rows) == ONSET
    assert json.loads(rows["series"][0]) == {"service.name": "checkout"}
    assert (set(rows["threshold"]), set(rows["unit"])) == ({5.0}, {"%"})


def test_a_baseline_of_new_relic_is_a_gap(server: LocalServer) -> None:
    new_relic_stand_in.serve(server)
    connector = NEW_RELIC.configured(
        Settings.model_validate(new_relic_stand_in.settings(server.url))
    )
    assert connector is not None
    condition = msgspec.convert(new_relic_stand_in.condition("x", "BASELINE"), NrqlCondition)
    (gap,) = asked_of(connector, alert_on(query_of_condition([condition], "x"))).missing
    assert "baseline" in gap.reason


def test_the_clauses_of_a_condition_give_way_to_the_window() -> None:
    text = "SELECT count(*) FROM Log WHERE a = 'x' SINCE 5 minutes ago FACET `pod name`, b LIMIT 10"
    window = evaluated_windows(SCOPE)[0]
    sent = timeseries(text, window, 60)
    assert sent.count("SINCE") == sent.count("LIMIT") == 1
    assert "FACET `pod name`, b LIMIT 100 TIMESERIES 60 seconds SINCE" in sent
    row = {"facet": ["p-1", "y"], "pod name": "p-1", "b": "y", "count": 3, "beginTimeSeconds": 60}
    (series,) = condition_series(text, [row])
    assert series.labels == {"pod name": "p-1", "b": "y"}
    assert series.points == [(60_000_000_000, 3.0)]


def test_a_monitors_window_is_the_minutes_up_to_a_point() -> None:
    minute = 60 * 1_000_000_000
    points = [(n * minute, float(n)) for n in range(1, 6)]
    assert [value for _, value in rolled(points, "sum(last_2m):x > 5")] == [1, 3, 5, 7, 9]
    assert [value for _, value in rolled(points, "max(last_2m):x > 5")] == [1, 2, 3, 4, 5]
    assert rolled(points, "x > 5") == points
