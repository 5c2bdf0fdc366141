"""New Relic: checkout, which sends OpenTelemetry, fails from ONSET on, two minutes after a
deployment was recorded. It answers the NRQL that is asked, and refuses any other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.loki import LINES, TRACE_ID

ACCOUNT = 1234567
GRAPHQL = "/graphql"
READING_POSTS = frozenset({GRAPHQL})
KEY = "NRAK-5F2C19D7E0B3"
DEPLOYED = ONSET - timedelta(minutes=2)


def settings(url: str) -> dict[str, Any]:
    """An account in the EU, whose API is elsewhere."""
    own = {"account_id": ACCOUNT, "api_key": KEY, "region": "eu", "api_url": url}
    return {"new_relic": own}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(GRAPHQL, answer)


def answer(asked: Asked) -> Reply:
    """The documented shape, with the rows of the query."""
    variables = json.loads(asked.body)["variables"]
    assert variables["account"] == ACCOUNT
    if "name" in variables:
        search = {"nrqlConditions": [condition(variables["name"])]}
        return Reply({"data": {"actor": {"account": {"alerts": {"nrqlConditionsSearch": search}}}}})
    return rows(found(variables["nrql"]))


FAILING = (
    "SELECT percentage(count(*), WHERE otel.status_code = 'ERROR') FROM Span "
    "WHERE service.name = 'checkout' FACET service.name"
)


def condition(name: str, type: str = "STATIC") -> dict[str, Any]:
    """A condition as NerdGraph has it."""
    warning = {"operator": "ABOVE", "priority": "WARNING", "threshold": 1.0}
    term = {"thresholdDuration": 300, "thresholdOccurrences": "ALL"}
    terms = [warning | term, warning | term | {"priority": "CRITICAL", "threshold": 5.0}]
    return {
        "name": name,
        "type": type,
        "nrql": {"query": FAILING},
        "signal": {"aggregationWindow": 60},
        "terms": terms,
    }


def rows(results: list[dict[str, Any]]) -> Reply:
    """What NerdGraph answers a query with."""
    return Reply({"data": {"actor": {"account": {"nrql": {"results": results}}}}})


def found(text: str) -> list[dict[str, Any]]:
    """The rows of one query."""
    if text.endswith("SINCE 1 hour ago"):
        return [{"events": 7}]
    since, until = re.findall(r"(?:SINCE|UNTIL) (\d+)", text)
    start, end = (datetime.fromtimestamp(int(one) / 1000, UTC) for one in (since, until))
    if "FROM Deployment" in text:
        return [marker(DEPLOYED)] if start <= DEPLOYED < end else []
    if "'checkout'" not in text and "trace.id IN" not in text:
        return []
    if "FROM Transaction" in text:
        return []
    if "FROM Log" in text:
        return counted(start, end) if "FACET level" in text else lines(text, start, end)
    if "uniques(trace.id" in text:
        return [{"ids": [trace_of(at) for at in minutes(start, end)][:30]}]
    if "trace.id IN" in text:
        return [row for at in minutes(start, end) if trace_of(at) in text for row in spans(at)]
    if "SELECT percentage" in text:
        assert "TIMESERIES 60 seconds SINCE" in text
        return [
            {k: v for k, v in golden(at).items() if k not in ("rate", "failed", "took")}
            | {"percentage": golden(at)["failed"]}
            for at in minutes(start, end)
        ]
    assert "FACET service.name" in text, text
    return [golden(at) for at in minutes(start, end)]


def minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    """The beginnings of the whole minutes in a window."""
    at = start.replace(second=0, microsecond=0)
    at = at if at == start else at + timedelta(minutes=1)
    while at < end:
        yield at
        at += timedelta(minutes=1)


def step(at: datetime) -> dict[str, int]:
    """How NRQL names a step of a TIMESERIES."""
    begins = round(at.timestamp())
    return {"beginTimeSeconds": begins, "endTimeSeconds": begins + 60}


def golden(at: datetime) -> dict[str, Any]:
    """One minute of the golden signals."""
    late = at >= ONSET
    took = {"50": 30.0 + (2000 if late else 0), "99": 90.0 + at.minute % 5 + (2000 if late else 0)}
    values = {"rate": 20.0, "failed": 40.0 if late else 0.0, "took": took}
    return {**step(at), "facet": "checkout", "service.name": "checkout", **values}


def counted(start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Lines by level, of which a facet has every step."""
    made = []
    for at in minutes(start, end):
        made.append({**step(at), "facet": "INFO", "level": "INFO", "lines": 6})
        made.append(
            {**step(at), "facet": "ERROR", "level": "ERROR", "lines": 6 if at >= ONSET else 0}
        )
    return made


def lines(text: str, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """The first lines of the window, errors alone where the query says so."""
    limit = int(re.findall(r"LIMIT (\d+)", text)[0])
    made = []
    for at, level, said in LINES:
        if start <= at < end and (level == "error" or "'ERROR'" not in text):
            made.append(
                {
                    "timestamp": round(at.timestamp() * 1000),
                    "message": said,
                    "level": level.upper(),
                    "entity.name": "checkout",
                    "service.name": "checkout",
                    "hostname": "node-7",
                    "trace.id": TRACE_ID,
                    "newrelic.source": "api.logs.otlp",
                }
            )
    return made[:limit]


def trace_of(at: datetime) -> str:
    """One trace a minute."""
    return f"{round(at.timestamp()):032x}"


def spans(at: datetime) -> list[dict[str, Any]]:
    """A request, and the call that it makes."""
    failed = at >= ONSET
    root = {
        "timestamp": round(at.timestamp() * 1000),
        "trace.id": trace_of(at),
        "id": "00f067aa0ba902b7",
        "name": "POST /orders",
        "duration.ms": 2090.0 if failed else 90.0,
        "service.name": "checkout",
        "entity.name": "checkout",
        "span.kind": "server",
        "otel.status_code": "ERROR" if failed else "UNSET",
        "http.response.status_code": 503 if failed else 200,
    }
    call = root | {
        "id": "00f067aa0ba902b8",
        "parent.id": "00f067aa0ba902b7",
        "name": "SELECT stock",
        "span.kind": "client",
        "duration.ms": 5.0,
        "otel.status_code": "UNSET",
    }
    return [root, call]


def marker(at: datetime) -> dict[str, Any]:
    """A deployment as change tracking stores it."""
    return {
        "timestamp": round(at.timestamp() * 1000),
        "deploymentId": "d-42",
        "deploymentType": "BASIC",
        "entity.guid": "MXxBUE18QVBQTElDQVRJT058MQ",
        "entity.name": "checkout",
        "version": "v42",
        "commit": "7f3c2d1a9b8e4f60",
        "description": "Reserve stock in one call",
        "user": "ada@example.com",
    }
