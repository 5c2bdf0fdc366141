"""Queries of a model's own, against a real Prometheus and over HTTP as Loki documents it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.folder import json_bytes, read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation.model.toolbox import Toolbox
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.contract.instances import ConnectorInstance
from faultline.connectors.shared.settings.instances import Covers
from faultline.connectors.vendors.loki import CONNECTOR as LOKI
from faultline.connectors.vendors.loki.connector import LokiConnector
from faultline.connectors.vendors.prometheus import PrometheusSettings
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from tests.bot.investigation.model.tools.conftest import Desk
from tests.connectors.conftest import ALERT_AT, RunningPrometheus, prometheus, server
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import loki as stand_in

__all__ = ["prometheus", "server"]

RATE = 'sum by (service) (rate(http_requests_total{code="503"}[5m]))'


def case_of(folder: Path) -> Path:
    folder.mkdir()
    alert = Alert(source="test", title="checkout fails", started_at=ALERT_AT, service="checkout")
    write_json(folder / "alert.json", alert)
    incident = Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT)
    before = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    write_json(folder / "scope.json", Scope(incident=incident, baseline=(before,)))
    at = (ALERT_AT - timedelta(minutes=40)).isoformat()
    row = {"time": at, "service": "checkout", "signal": "up", "value": 1}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "findings.json").write_bytes(json_bytes(diagnose(read_case(folder))))
    return folder


def desk_with(tmp_path: Path, connectors: Sequence[Connector]) -> Desk:
    return Desk(case_of(tmp_path / "case"), tmp_path / "work", connectors)


def test_promql_brings_series_to_cite_and_changes_no_finding(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    desk = desk_with(tmp_path, [PrometheusConnector(prometheus.url)])
    before = desk.bench.diagnosis
    rows = desk.rows("query", connector="prometheus", query=RATE, start="2026-03-02T11:30:00Z")
    assert rows[0].startswith("provenance: prometheus, E2, 2026-03-02 11:30:00 to 12:00:00")
    finding = desk.cited(rows[1])
    assert isinstance(finding.details, ObservationDetails)
    assert finding.subject == "checkout"
    assert finding.numbers["last"] == pytest.approx(2.0, rel=0.05)
    assert finding.details.expression == RATE
    assert len(finding.details.points) <= 61
    (item,) = [e for e in desk.bench.case.evidence if e.id in finding.evidence]
    assert (item.source, item.query) == ("prometheus", RATE)
    assert "/graph?" in (item.link or "")
    assert item.details["asked_by"] == "the model"
    assert desk.bench.diagnosis == before
    assert desk.bench.case.metrics.height == 1, "its rows enter no table"
    (row,) = desk.rows("calculate", expression=f"max({finding.id})")[1:]
    assert desk.cited(row).numbers["value"] == pytest.approx(2.0, rel=0.05)


def test_what_is_wrong_with_a_query_is_told_and_leaves_nothing(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    desk = desk_with(tmp_path, [PrometheusConnector(prometheus.url)])
    evidence = desk.bench.case.evidence

    def error(text: str, **more: str) -> str:
        return desk.error("query", connector="prometheus", query=text, **more)

    assert "names nothing" in error('{__name__=~".+"}')
    assert "not closed" in error("sum(")
    assert "parse error" in error("sum by up"), "the server's own words"
    assert "at most 6 hours" in error("up", start="2026-03-01T00:00:00Z")
    assert "must lie between" in error(
        "up", start="2020-03-01T00:00:00Z", end="2020-03-01T01:00:00Z"
    )
    assert "no connector of that name" in desk.error("query", connector="../x", query="up")
    assert (desk.bench.case.evidence, desk.bench.case.gaps) == (evidence, ())
    assert desk.bench.asks == []


def test_a_connector_that_takes_no_queries_gets_none(desk: Desk) -> None:
    assert "query" not in desk.offered
    assert "collect" not in desk.offered


def test_instances_of_a_vendor_are_asked_by_their_name(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    table = PrometheusSettings.model_validate({"url": prometheus.url}).as_instance("eu", Covers())
    connector = ConnectorInstance(PrometheusConnector(prometheus.url), table)
    desk = desk_with(tmp_path, [connector])
    rows = desk.rows("query", connector="prometheus eu", query=RATE)
    assert rows[0].startswith("provenance: prometheus eu, E2")


def loki(server: LocalServer) -> LokiConnector:
    stand_in.serve(server)
    built = LOKI.configured(Settings.model_validate(stand_in.settings(server.url)))
    assert isinstance(built, LokiConnector)
    return built


def test_logql_brings_lines_to_quote(server: LocalServer, tmp_path: Path) -> None:
    desk = desk_with(tmp_path, [loki(server)])
    text = '{service_name="checkout"} |~ "refused"'
    rows = desk.rows("query", connector="loki", query=text)
    finding = desk.cited(rows[1])
    assert isinstance(finding.details, ObservationDetails)
    assert finding.details.quote.startswith(stand_in.FAILURE)
    assert finding.details.about == "log_line"
    assert finding.subject == "checkout"
    assert rows[-1] == "cut: the first 40 lines"
    (asked,) = [one for one in server.asked if one.path == "/loki/api/v1/query_range"]
    assert asked.query["limit"] == ["40"]


def test_logql_that_counts_brings_series(server: LocalServer, tmp_path: Path) -> None:
    desk = desk_with(tmp_path, [loki(server)])
    text = 'sum by (detected_level) (count_over_time({service_name="checkout"}[60s]))'
    rows = desk.rows("query", connector="loki", query=text)
    assert any("detected_level=error" in row for row in rows)


def test_an_answer_of_another_shape_is_an_error_and_no_evidence(
    server: LocalServer, tmp_path: Path
) -> None:
    desk = desk_with(tmp_path, [loki(server)])
    for answer in (
        {"data": {"resultType": "scalar", "result": []}},
        {"data": {"resultType": "streams", "result": {"a": 1}}},
        {"data": 3},
    ):
        server.on("/loki/api/v1/query_range", Reply(answer))
        error = desk.error("query", connector="loki", query='{service_name="checkout"}')
        assert "unexpected response" in error
    assert desk.bench.asks == []


def test_a_worker_that_takes_over_has_the_answers(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    first = desk_with(tmp_path, [PrometheusConnector(prometheus.url)])
    cited = first.cited(first.rows("query", connector="prometheus", query=RATE)[1])
    shutil.copytree(tmp_path / "work/kept/model", first.folder / "model")
    second = Desk(first.folder, tmp_path / "second")
    second.bench.observations = list(first.bench.observations)
    asyncio.run(second.bench.restore("ask-1"))
    assert isinstance(second.toolbox, Toolbox)
    (row,) = second.rows("calculate", expression=f"max({cited.id})")[1:]
    assert second.cited(row).numbers["value"] == pytest.approx(2.0, rel=0.05)
