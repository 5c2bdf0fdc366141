"""Grafana: an annotation tells of a deploy of checkout, and a rule fires from then on. Its apps of
Grafana Cloud have an objective of checkout, which burns from then on, and an incident."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.connectors.vendors.grafana.incidents import INCIDENTS
from faultline.connectors.vendors.grafana.objectives import SLOS, UUID_LABEL, burn_path
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS = frozenset({INCIDENTS})
DEPLOYED = ONSET - timedelta(minutes=2)
SOURCE = "grafanacloud-prom"
SLO = "qa1sd8rgcvhb3zvsjgxnn"


def settings(url: str) -> dict[str, Any]:
    """With links to its own address."""
    page = "https://grafana.example.com"
    return {"grafana": {"url": url, "public_url": page, "token": "glsa_t", "cloud_apps": True}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on("/api/health", Reply({"commit": "abc", "database": "ok", "version": "12.1.0"}))
    server.on(
        "/api/access-control/user/permissions", Reply({"annotations:read": ["annotations:*"]})
    )
    server.on("/api/prometheus/grafana/api/v1/rules", Reply(rules()))
    server.on("/api/annotations", _annotations)
    server.on(SLOS, Reply({"slos": [slo(), slo(uuid="other", service="cart-db")]}))
    server.on(burn_path(SOURCE), _burn)
    server.on(INCIDENTS, Reply({"incidentPreviews": incidents(), "cursor": {"hasMore": False}}))


def slo(uuid: str = SLO, service: str = "checkout", target: float = 0.995) -> dict[str, Any]:
    """One objective as the app's specification has it."""
    return {
        "uuid": uuid,
        "name": f"{service} availability",
        "description": "of all requests",
        "query": {"type": "freeform", "freeform": {"query": "x"}},
        "objectives": [{"value": target, "window": "28d"}],
        "labels": [{"key": "service", "value": service}, {"key": "team", "value": "shop"}],
        "destinationDatasource": {"uid": SOURCE, "type": "prometheus"},
        "readOnly": {"status": {"type": "created"}, "drillDownDashboardRef": {"UID": "d1"}},
    }


def _burn(asked: Asked) -> Reply:
    """Of a share of 0.1 % that fails it becomes 7 %."""
    start, end, step = (float(asked.query[name][0]) for name in ("start", "end", "step"))
    values = []
    at = start
    while at <= end:
        values.append([at, "0.07" if at >= ONSET.timestamp() else "0.001"])
        at += step
    series = {"metric": {UUID_LABEL: SLO}, "values": values}
    return Reply({"status": "success", "data": {"resultType": "matrix", "result": [series]}})


def incidents() -> list[dict[str, Any]]:
    """The newest first: ours, a drill, and one of last week."""
    last_week = ONSET - timedelta(days=7)
    over = last_week + timedelta(hours=1)
    return [
        incident("42", "Checkout is down", ONSET + timedelta(minutes=5)),
        incident("41", "Game day", ONSET, isDrill=True),
        incident("40", "Slow search", last_week, status="resolved", closedTime=zulu(over)),
    ]


def incident(number: str, title: str, declared: datetime, **own: Any) -> dict[str, Any]:
    """A preview as the Incident API gives it."""
    return {
        "incidentID": number,
        "title": title,
        "slug": title.lower().replace(" ", "-"),
        "status": "active",
        "severityID": "s1",
        "severityLabel": "Critical",
        "isDrill": False,
        "incidentType": "internal",
        "labels": [{"key": "service", "label": "checkout", "colorHex": "#fff"}],
        "createdTime": zulu(declared),
        "modifiedTime": zulu(declared),
        "closedTime": "",
        "incidentStart": zulu(declared - timedelta(minutes=4)),
        "incidentEnd": "",
        **own,
    }


def zulu(at: datetime) -> str:
    """A time as Grafana writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _annotations(asked: Asked) -> Reply:
    start, end = (
        int(asked.query.get(name, [given])[0])
        for name, given in (("from", "0"), ("to", str(10**14)))
    )
    kind, tags = asked.query.get("type", [""])[0], set(asked.query.get("tags", []))
    found = history() if kind == "alert" else [one for one in notes() if tags & set(one["tags"])]
    inside = [one for one in found if start <= one["time"] <= end]
    return Reply(sorted(inside, key=lambda one: -one["time"])[: int(asked.query["limit"][0])])


def notes() -> list[dict[str, Any]]:
    """Notes of people and of a pipeline."""
    deploy = {
        "text": "<b>checkout 2.4.1</b> to production",
        "tags": ["deploy", "service:checkout"],
        "login": "ci",
    }
    flag = {"text": "basket-v2 on", "tags": ["flag", "cart"], "dashboardUID": "shop", "panelId": 4}
    lunch = {"text": "we went for lunch", "tags": ["team"]}
    return [
        _annotation(11, DEPLOYED, **deploy),
        _annotation(12, ONSET - timedelta(hours=5), **flag),
        _annotation(13, ONSET, **lunch),
    ]


def history() -> list[dict[str, Any]]:
    """Changes of the rule's state."""
    made = []
    for number, (at, before, after) in enumerate(
        (
            (ONSET - timedelta(hours=1), "Alerting", "Normal"),
            (ONSET + timedelta(minutes=1), "Normal", "Pending"),
            (ONSET + timedelta(minutes=3), "Pending", "Alerting"),
        )
    ):
        text = f"Checkout errors {{service=checkout, team=shop}} - {after}"
        named = {
            "alertId": 7,
            "alertName": "Checkout errors",
            "prevState": before,
            "newState": after,
        }
        made.append(_annotation(20 + number, at, text=text, tags=[], **named))
    return made


def _annotation(number: int, at: datetime, **own: Any) -> dict[str, Any]:
    ms = round(at.timestamp() * 1000)
    empty = {
        "alertId": 0,
        "alertName": "",
        "dashboardUID": None,
        "panelId": 0,
        "userId": 1,
        "login": "",
        "data": {},
    }
    return {
        "id": number,
        "time": ms,
        "timeEnd": ms,
        "newState": "",
        "prevState": "",
        **empty,
        **own,
    }


def rules() -> dict[str, Any]:
    """As GET /api/prometheus/grafana/api/v1/rules gives them."""
    since = (ONSET + timedelta(minutes=3)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {"alertname": "Checkout errors", "service": "checkout", "grafana_folder": "shop"}
    firing = {
        "labels": labels,
        "annotations": {},
        "state": "Alerting",
        "activeAt": since,
        "value": "0.4",
    }
    calm = {
        "labels": {**labels, "service": "cart"},
        "annotations": {},
        "state": "Normal",
        "activeAt": None,
        "value": "",
    }
    rule = {
        "state": "firing",
        "name": "Checkout errors",
        "uid": "be7x",
        "folderUid": "shop",
        "query": "[{}]",
        "alerts": [firing, calm],
        "labels": {"team": "shop"},
        "health": "ok",
        "type": "alerting",
        "lastEvaluation": since,
        "evaluationTime": 0.01,
    }
    broken = {
        **rule,
        "name": "Queue",
        "uid": "be7y",
        "alerts": [],
        "health": "error",
        "lastError": "no data source",
    }
    group = {
        "name": "errors",
        "file": "shop",
        "rules": [rule, broken],
        "interval": 60,
        "totals": {},
    }
    return {"status": "success", "data": {"groups": [group], "totals": {"firing": 1}}}
