"""The Grafana connector over real HTTP."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.tables import conform
from faultline.bot.settings import Settings
from faultline.connectors.vendors.grafana import CONNECTOR
from faultline.connectors.vendors.grafana.connector import MOST_ANNOTATIONS, GrafanaConnector
from faultline.connectors.vendors.loki.connector import LokiConnector
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import grafana as stand_in
from tests.connectors.stand_ins import loki


def connector(server: LocalServer, **more: Any) -> GrafanaConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url) | more))
    assert built is not None
    return built


def test_annotations_with_a_change_tag_are_changes(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "cart"))
    changes = conform(found.tables["changes"], "changes", "changes").sort("time", descending=True)
    deploy, flag = changes.iter_rows(named=True)
    assert (deploy["kind"], deploy["service"], deploy["author"]) == ("deploy", "checkout", "ci")
    assert (deploy["title"], deploy["time"]) == ("checkout 2.4.1 to production", stand_in.DEPLOYED)
    assert (flag["kind"], flag["service"]) == ("flag", "cart")
    assert flag["link"].startswith("https://grafana.example.com/d/shop?from=")
    assert found.missing == ()


def test_changes_are_asked_a_day_back_and_by_any_of_the_tags(
    server: LocalServer, tmp_path: Path
) -> None:
    collected(
        tmp_path, connector(server, grafana={"url": server.url, "change_tags": ["ship", "flag"]})
    )
    asked = next(a.query for a in server.asked if a.query.get("type") == ["annotation"])
    assert (asked["tags"], asked["matchAny"]) == (["ship", "flag"], ["true"])
    assert int(asked["from"][0]) == round((ALERT_AT - timedelta(hours=26.5)).timestamp() * 1000)


def test_rules_and_their_history_are_monitors(server: LocalServer, tmp_path: Path) -> None:
    monitors = collected(tmp_path, connector(server)).tables["monitors"].sort("since", "link")
    assert monitors.select("monitor", "service", "state").rows() == [
        ("Checkout errors", "checkout", "ok"),
        ("Checkout errors", "checkout", "pending"),
        ("Checkout errors", "checkout", "firing"),
        ("Checkout errors", "checkout", "firing"),
    ]
    assert monitors["since"][2] == ONSET + timedelta(minutes=3)
    assert "https://grafana.example.com/alerting/grafana/be7x/view" in monitors["link"].to_list()


def test_a_rule_that_cannot_be_evaluated_is_told(server: LocalServer, tmp_path: Path) -> None:
    details = [
        i.details
        for i in collected(tmp_path, connector(server)).items
        if i.query.endswith("/rules")
    ]
    assert details == [{"Queue": "cannot be evaluated: no data source"}]


def test_states_of_grafana_in_other_sources_words(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    found = [
        {**stand_in.history()[0], "id": n, "newState": state}
        for n, state in enumerate(("Normal (NoData)", "NoData", "Error", "Alerting", "", "Paused"))
    ]
    server.on("/api/annotations", Reply(found))
    server.on("/api/prometheus/grafana/api/v1/rules", Reply({"data": {"groups": []}}))
    states = collected(tmp_path, built).tables["monitors"]["state"].to_list()
    assert states == ["ok", "no data", "error", "firing", "paused"]


def test_hostile_text_of_an_annotation_is_one_plain_line(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    text = '<a href="javascript:alert(1)">x</a>\n' + "<" * 5000 + "&lt;script&gt;"
    tags = ["deploy", "service:" + "s" * 999]
    note = {**stand_in.notes()[0], "text": text, "dashboardUID": "../../x?y=", "tags": tags}
    server.on("/api/annotations", Reply([note]))
    row = collected(tmp_path, built).tables["changes"].row(0, named=True)
    assert row["title"].startswith("x <<<")
    assert len(row["title"]) <= 300
    assert "/d/..%2F..%2Fx%3Fy%3D?" in row["link"]
    assert len(row["service"]) <= 200


def test_what_is_cut_is_said(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    server.on("/api/annotations", Reply([stand_in.notes()[0]] * MOST_ANNOTATIONS))
    cuts = {i.cut for i in collected(tmp_path, built).items if "annotations" in i.query}
    assert cuts == {f"only the latest {MOST_ANNOTATIONS} were asked"}


@pytest.mark.parametrize(
    ("path", "reply", "kinds"),
    [
        ("/api/annotations", Reply({"message": "no"}, 403), {"changes", "monitors"}),
        ("/api/prometheus/grafana/api/v1/rules", Reply(b"", 404), {"monitors"}),
        (
            "/api/prometheus/grafana/api/v1/rules",
            Reply({"data": {"groups": [{"rules": 3}]}}),
            {"monitors"},
        ),
        ("/api/annotations", Reply(b'[{"id": "x"}]'), {"changes", "monitors"}),
    ],
)
def test_a_call_that_fails_is_a_gap_and_the_others_stand(
    server: LocalServer, tmp_path: Path, path: str, reply: Reply, kinds: set[str]
) -> None:
    built = connector(server)
    server.on(path, reply)
    found = collected(tmp_path, built)
    assert {gap.kind for gap in found.missing} == kinds
    assert not any("internal error" in gap.reason for gap in found.missing)
    assert found.tables["monitors"].height


def test_check_says_what_can_be_read_and_warns_of_a_token_that_writes(server: LocalServer) -> None:
    built = connector(server)
    said = asyncio.run(built.check())
    assert "Grafana 12.1.0" in said.line
    assert "alert rules, annotations, SLOs, incidents can be read" in said.line
    assert "only GET and the list of incidents are sent" in said.line
    assert "warning" not in said.line
    writing = {
        "dashboards:write": ["dashboards:*"],
        "annotations:create": ["*"],
        "annotations:read": ["*"],
    }
    server.on("/api/access-control/user/permissions", Reply(writing))
    server.on("/api/annotations", Reply(b"", 403))
    said = asyncio.run(built.check())
    assert said.ok
    assert (
        "annotations cannot be read (not permitted with these credentials; needs annotations:read)"
        in said.line
    )
    assert "the token can also write (annotations:create, dashboards:write)" in said.line


def test_the_deploy_of_an_annotation_is_near_the_errors_in_the_log(
    server: LocalServer, tmp_path: Path
) -> None:
    loki.serve(server)
    found = diagnosed(tmp_path, connector(server), LokiConnector(server.url))
    assert [cause.subject for cause in found.causes[:2]] == ["cart", "checkout"]
    near = [f for f in found.findings if f.kind == "change_near" and f.subject == "checkout"]
    assert [f.details.written()["change"] for f in near] == ["annotation 11"]
