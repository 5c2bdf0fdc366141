"""Datadog: the checkout service fails and slows down from ONSET on, two minutes after its version
v2.41 came.

Answers have the shapes of the published specification (tests/contracts/test_datadog_contract.py
lets prism say so).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.connectors.vendors.datadog.calls import CALLS
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

MONITOR = 4242
QUERY = "sum(last_5m):sum:trace.http.request.errors{env:prod,service:checkout}.as_count() > 50"
DEPLOYED = ONSET - timedelta(minutes=2)
COMMIT = "9f2c1d7b3a5e4f60718293a4b5c6d7e8f9012345"
TRACE_IDS = ("65f1c0de00000000aaaaaaaaaaaaaaa1", "65f1c0de00000000aaaaaaaaaaaaaaa2")
READING_POSTS = frozenset(call.path for call in CALLS if call.method == "POST")
"""Searching takes POST at Datadog; which calls there are is fixed in
connectors/vendors/datadog/calls.py."""
APPLICATION_KEY = "b" * 36 + "cafe"


def settings(url: str) -> dict[str, Any]:
    """With both keys."""
    return {
        "datadog": {"api_key": "a" * 32, "app_key": APPLICATION_KEY, "api_url": url, "env": "prod"}
    }


def ms(at: datetime) -> int:
    """As v2 has times."""
    return round(at.timestamp() * 1000)


def iso(at: datetime) -> str:
    """As searches have them."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def monitor() -> dict[str, Any]:
    """The monitor that fired."""
    group = {
        "name": "service:checkout",
        "status": "Alert",
        "last_triggered_ts": int(ALERT_AT.timestamp()),
    }
    return {
        "id": MONITOR,
        "name": "Checkout errors",
        "type": "query alert",
        "query": QUERY,
        "message": "Errors of {{service.name}} @webhook-faultline",
        "tags": ["service:checkout", "team:shop"],
        "overall_state": "Alert",
        "priority": 1,
        "multi": True,
        "state": {
            "groups": {
                "service:checkout": {
                    **group,
                    "last_resolved_ts": int(ALERT_AT.timestamp()) - 86_400,
                }
            }
        },
    }


def level(query: str, at: datetime) -> float | None:
    """The value of a formula or query at a moment."""
    late = at >= ONSET and not any(
        calm in query for calm in ("service:cart", "service:payments", "redis")
    )
    wave = 1 + 0.02 * ((int(at.timestamp()) // 20) % 5)
    if "v2.41" in query and at < DEPLOYED:
        return None
    for word, before, after in (
        (".errors", 0.002, 0.2),
        ("p99:", 0.21, 1.9),
        ("p50:", 0.05, 0.06),
        ("hits", 40.0, 39.0),
        ("cpu", 1.2e9, 1.25e9),
        ("memory", 4e8, 4e8),
    ):
        if word in query:
            return (after if late else before) * wave
    return None


def times(start: float, end: float, every: float) -> Iterator[datetime]:
    """Moments from start to end, in seconds since 1970."""
    at = start
    while at < end:
        yield datetime.fromtimestamp(at, UTC)
        at += every


def timeseries(asked: Asked) -> Reply:
    """What the v2 query API answers: one series per formula, two where it is grouped by version."""
    given = json.loads(asked.body)["data"]["attributes"]
    moments = list(times(given["from"] / 1000, given["to"] / 1000, given["interval"] / 1000))
    known = {q["name"]: q.get("query", "count") for q in given["queries"]}
    series, values = [], []
    for index, formula in enumerate(given["formulas"]):
        names = re.findall(r"\b[a-z]+\d+\b", formula["formula"])
        whole = " ".join(known[name] for name in names)
        groups: list[list[str]] = [[]]
        if "by {version}" in whole and "service:checkout" in whole:
            groups = [["version:v2.40"], ["version:v2.41"]]
        elif " by {" in whole:
            continue
        for tags in groups:
            made = [level(whole + " ".join(tags), at) for at in moments]
            if any(v is not None for v in made):
                series.append({"group_tags": tags, "query_index": index, "unit": None})
                values.append(made)
    for one in series:
        del one["unit"]
    lines = {"series": series, "times": [ms(at) for at in moments], "values": values}
    return Reply({"data": {"type": "timeseries_response", "attributes": lines}})


def points(asked: Asked) -> Reply:
    """What the v1 query API answers."""
    start, end = (float(asked.query[name][0]) for name in ("from", "to"))
    query = asked.query["query"][0]
    made = [
        [at.timestamp() * 1000, 200 * (level(query, at) or 0.0)] for at in times(start, end, 20)
    ]
    own = {
        "metric": "trace.http.request.errors",
        "scope": "env:prod,service:checkout",
        "pointlist": made,
    }
    return Reply(
        {
            "status": "ok",
            "series": [{**own, "tag_set": ["env:prod", "service:checkout"]}],
            "query": query,
        }
    )


def lines() -> list[dict[str, Any]]:
    """Log lines: one a minute as ever, and errors of a separate kind from ONSET on."""
    start, made = ALERT_AT - timedelta(minutes=150), []
    for minute in range(150):
        at = start + timedelta(minutes=minute)
        made.append(line(at, "info", f"order {1000 + minute} placed"))
        for number in range(4 if at >= ONSET else 0):
            said = f"could not price cart {7000 + number}: discount is None"
            made.append(line(at + timedelta(seconds=7 * number), "error", said, kind="TypeError"))
    return made


def line(at: datetime, status: str, said: str, kind: str | None = None) -> dict[str, Any]:
    """One log line as a search gives it."""
    own: dict[str, Any] = {"dd": {"trace_id": TRACE_IDS[0]}}
    if kind:
        own["error"] = {
            "kind": kind,
            "stack": 'File "checkout/pricing.py", line 88, in total\n  TypeError',
        }
    return {
        "id": f"AQ{ms(at)}{status}",
        "type": "log",
        "attributes": {
            "timestamp": iso(at),
            "service": "checkout",
            "status": status,
            "message": said,
            "host": "node-1",
            "tags": [
                "env:prod",
                "version:v2.41" if at >= DEPLOYED else "version:v2.40",
                "pod_name:checkout-7d9f",
            ],
            "attributes": own,
        },
    }


def window(given: Mapping[str, Any]) -> tuple[datetime, datetime]:
    """The filter's window."""
    start, end = (datetime.fromisoformat(str(given[name])) for name in ("from", "to"))
    return start, end


def searched_lines(asked: Asked) -> Reply:
    """A page of logs: errors alone where the query asks for a status."""
    body = json.loads(asked.body)
    start, end = window(body["filter"])
    only = "status:" in body["filter"]["query"]
    found = [
        one
        for one in lines()
        if start <= datetime.fromisoformat(one["attributes"]["timestamp"]) < end
        and (not only or one["attributes"]["status"] == "error")
    ]
    found = found if body.get("sort") == "timestamp" else found[::-1]
    limit = body["page"]["limit"]
    meta: dict[str, Any] = {"status": "done", "elapsed": 12}
    if len(found) > limit:
        meta["page"] = {"after": "eyJhZnRlciI6IjEifQ=="}
    return Reply({"data": found[:limit], "meta": meta})


def counted_lines(asked: Asked) -> Reply:
    """Counts by status per minute, or by kind of error."""
    body = json.loads(asked.body)
    start, end = window(body["filter"])
    known = [
        (datetime.fromisoformat(one["attributes"]["timestamp"]), one["attributes"]["status"])
        for one in lines()
    ]
    inside = [(at, status) for at, status in known if start <= at < end]
    if body["compute"][0]["type"] == "total":
        bad = sum(status == "error" for _, status in inside)
        by = {"service": "checkout", "@error.kind": "TypeError"}
        return Reply(
            {
                "data": {"buckets": [{"by": by, "computes": {"c0": bad}}] if bad else []},
                "meta": {"status": "done"},
            }
        )
    buckets = []
    for status in ("info", "error"):
        per: dict[datetime, float] = {at.replace(second=0, microsecond=0): 0.0 for at, _ in inside}
        for at, own in inside:
            per[at.replace(second=0, microsecond=0)] += own == status
        series = [{"time": iso(at), "value": count} for at, count in per.items()]
        buckets.append(
            {"by": {"service": "checkout", "status": status}, "computes": {"c0": series}}
        )
    return Reply({"data": {"buckets": buckets}, "meta": {"status": "done"}})


def spans(asked: Asked) -> Reply:
    """A page of spans, slow and failing from ONSET on."""
    attributes = json.loads(asked.body)["data"]["attributes"]
    start, end = window(attributes["filter"])
    only = "status:error" in attributes["filter"]["query"]
    made = []
    for number in range(40 if "checkout" in attributes["filter"]["query"] else 0):
        at = start + (end - start) * number / 40
        bad = at >= ONSET
        if bad or not only:
            made.append(span(at, number, bad=bad))
    return Reply({"data": made[::-1][: attributes["page"]["limit"]], "meta": {"status": "done"}})


def span(at: datetime, number: int, *, bad: bool) -> dict[str, Any]:
    """One span as a search gives it; its trace is one of two that can be read whole."""
    took = timedelta(milliseconds=1900 if bad else 200 + number)
    return {
        "id": f"span-{number}",
        "type": "spans",
        "attributes": {
            "trace_id": TRACE_IDS[1] if bad else TRACE_IDS[0],
            "span_id": str(9_000_000_000 + ms(at) % 1_000_000_000),
            "parent_id": "0",
            "service": "checkout",
            "resource_name": "POST /checkout",
            "operation_name": "http.request",
            "start_timestamp": iso(at),
            "end_timestamp": iso(at + took),
            "env": "prod",
            "host": "node-1",
            "type": "web",
            "status": "error" if bad else "ok",
            "tags": ["env:prod", "version:v2.41"],
            "custom": {"duration": took / timedelta(microseconds=1) * 1000},
        },
    }


def trace(trace_id: str, *, bad: bool) -> dict[str, Any]:
    """A whole trace: checkout calls payments, which is as fast as ever."""
    start = ms(ONSET + timedelta(minutes=4) if bad else ONSET - timedelta(hours=1)) * 1_000_000
    took = 1_900_000_000 if bad else 210_000_000
    common = {
        "trace_id": 1,
        "trace_id_full": trace_id,
        "type": "web",
        "metrics": {},
        "restricted": False,
    }
    own = {
        "name": "http.request",
        "resource": "POST /checkout",
        "service": "checkout",
        "span_id": 11,
        "parent_id": 0,
    }
    call = {
        "name": "http.request",
        "resource": "POST /pay",
        "service": "payments",
        "span_id": 12,
        "parent_id": 11,
    }
    error = {"error.type": "TypeError"} if bad else {}
    spans_of_it = [
        {**common, **own, "start_time": start, "duration": took, "error": int(bad), "meta": error},
        {
            **common,
            **call,
            "start_time": start + 5_000_000,
            "duration": 60_000_000,
            "error": 0,
            "meta": {},
        },
    ]
    return {
        "data": {
            "id": trace_id,
            "type": "trace",
            "attributes": {"is_truncated": False, "spans": spans_of_it},
        }
    }


def state_change(at: datetime, state: str) -> dict[str, Any]:
    """An event of the monitor."""
    kind = "alert" if state == "Alert" else "alert recovery"
    own = {
        "title": f"[{state}] Checkout errors",
        "monitor": {
            "id": MONITOR,
            "name": "Checkout errors",
            "tags": ["service:checkout"],
            "transition": {"destination_state": state, "transition_type": kind},
        },
        "monitor_id": MONITOR,
        "timestamp": ms(at),
        "service": "checkout",
    }
    outer = {
        "timestamp": iso(at),
        "message": "%%% the monitor %%%",
        "tags": ["source:alert", "service:checkout"],
    }
    return {"id": f"E{ms(at)}", "type": "event", "attributes": {**outer, "attributes": own}}


def change_event() -> dict[str, Any]:
    """A feature flag that was turned on hours before."""
    at = ONSET - timedelta(hours=4)
    own = {
        "title": "Feature flag new-basket turned on for cart",
        "timestamp": ms(at),
        "source_type_name": "flags",
    }
    outer = {
        "timestamp": iso(at),
        "message": "by dana",
        "tags": ["service:cart", "author:dana", "version:new-basket"],
    }
    return {"id": "EFLAG", "type": "event", "attributes": {**outer, "attributes": own}}


def events(asked: Asked) -> Reply:
    """State changes, or changes."""
    query = json.loads(asked.body)["filter"]["query"]
    if "source:alert -" in query:
        found = [
            state_change(ALERT_AT - timedelta(minutes=3), "Alert"),
            state_change(ONSET - timedelta(hours=2), "OK"),
        ]
    else:
        found = [change_event()]
    return Reply({"data": found, "meta": {"status": "done"}})


def deployment() -> dict[str, Any]:
    """The release."""
    start = ms(DEPLOYED) * 1_000_000
    own = {
        "service": "checkout",
        "env": "prod",
        "version": "v2.41",
        "started_at": start,
        "finished_at": start + 60_000_000_000,
    }
    git = {"repository_id": "github.com/acme/checkout", "commit_sha": COMMIT}
    return {"id": "4242fcdd31586083", "type": "dora_deployment", "attributes": {**own, "git": git}}


def pipeline() -> dict[str, Any]:
    """A pipeline that deployed another service."""
    own = {
        "ci": {
            "pipeline": {"name": "deploy-payments", "url": "https://ci.example.com/77", "id": "77"},
            "status": "success",
        },
        "git": {
            "commit": {"sha": "1" * 40, "message": "Bump TLS", "author": {"name": "lee"}},
            "repository": {"name": "payments"},
        },
        "start": ms(ONSET - timedelta(hours=5)) * 1_000_000,
    }
    attributes = {"ci_level": "pipeline", "attributes": own, "tags": ["team:pay"]}
    return {"id": "AQ77", "type": "cipipeline", "attributes": attributes}


def issues() -> Reply:
    """An error first seen in the incident."""
    reference = {"issue": {"data": {"id": "c1726a66-1f64-11ee-b338-da7ad0900002", "type": "issue"}}}
    result = {
        "id": "c1726a66-1f64-11ee-b338-da7ad0900002",
        "type": "error_tracking_search_result",
        "attributes": {"total_count": 212},
        "relationships": reference,
    }
    issue = {
        "id": "c1726a66-1f64-11ee-b338-da7ad0900002",
        "type": "issue",
        "attributes": {
            "error_type": "TypeError",
            "error_message": "unsupported operand: discount is None",
            "file_path": "checkout/pricing.py",
            "function_name": "total",
            "first_seen": ms(ONSET + timedelta(seconds=20)),
            "last_seen": ms(ALERT_AT),
            "first_seen_version": "v2.41",
            "service": "checkout",
            "state": "OPEN",
            "languages": ["PYTHON"],
            "platform": "BACKEND",
            "is_crash": False,
        },
    }
    return Reply({"data": [result], "included": [issue]})


def relations(asked: Asked) -> Reply:
    """checkout calls payments, web calls checkout."""
    ends = {"filter[from_ref]": ("checkout", "payments"), "filter[to_ref]": ("web", "checkout")}
    wanted = next(
        (
            edge
            for name, edge in ends.items()
            if asked.query.get(name, [""])[0] == "service:checkout"
        ),
        None,
    )
    named = [{"kind": "service", "name": name, "namespace": "default"} for name in wanted or ()]
    data = []
    if named:
        attributes = {"from": named[0], "to": named[1], "type": "RelationTypeDependsOn"}
        data = [{"id": "r1", "type": "relation", "attributes": attributes}]
    return Reply({"data": data, "meta": {"count": len(data)}})


def serve(server: LocalServer) -> None:
    """Everything the connector asks."""
    answers: dict[str, Reply | Callable[[Asked], Reply]] = {
        "/api/v1/validate": Reply({"valid": True}),
        f"/api/v1/monitor/{MONITOR}": Reply(monitor()),
        "/api/v1/monitor": Reply([monitor()]),
        "/api/v1/metrics": Reply({"from": "1772000000", "metrics": metric_names()}),
        "/api/v1/query": points,
        "/api/v2/query/timeseries": timeseries,
        "/api/v2/logs/events/search": searched_lines,
        "/api/v2/logs/analytics/aggregate": counted_lines,
        "/api/v2/spans/events/search": spans,
        "/api/v2/events/search": events,
        "/api/v2/error-tracking/issues/search": issues(),
        "/api/v2/catalog/relation": relations,
        "/api/v2/dora/deployments": Reply({"data": [deployment()]}),
        "/api/v2/ci/pipelines/events/search": Reply(
            {"data": [pipeline()], "meta": {"status": "done"}}
        ),
        **{
            f"/api/v2/trace/{one}": Reply(trace(one, bad=number == 1))
            for number, one in enumerate(TRACE_IDS)
        },
        **keys(scopes=["timeseries_query", "metrics_read", "logs_read_data", "apm_read"]),
    }
    for path, answer in answers.items():
        server.on(path, answer)


def metric_names() -> list[str]:
    """The metrics that carry the service's tag."""
    own = [
        f"trace.http.request{suffix}" for suffix in ("", ".hits", ".errors", ".duration", ".apdex")
    ]
    return [
        *own,
        "trace.redis.command.hits",
        "kubernetes.cpu.usage.total",
        "container.memory.usage",
    ]


def keys(scopes: list[str] | None) -> dict[str, Reply]:
    """The application keys of the user, ours with these scopes; the user's role may also write
    monitors."""
    own = {
        "id": "k1",
        "type": "application_keys",
        "attributes": {"last4": "cafe", "name": "faultline", "scopes": scopes},
    }
    names = ("monitors_read", "monitors_write")
    permissions = [{"id": n, "type": "permissions", "attributes": {"name": n}} for n in names]
    return {
        "/api/v2/current_user/application_keys": Reply({"data": [own]}),
        "/api/v2/current_user": Reply(
            {"data": {"id": "00000000-0000-9999-0000-000000000000", "type": "users"}}
        ),
        "/api/v2/users/00000000-0000-9999-0000-000000000000/permissions": Reply(
            {"data": permissions}
        ),
    }
