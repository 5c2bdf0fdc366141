"""Azure Monitor: checkout is slow because payments waits for its database, since its settings were
changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

TOKEN_PATH, QUERY_PATH = "/tenant-1/oauth2/v2.0/token", "/v1/workspaces/ws-1/query"
APPLICATION_PATH, IDENTITY_PATH = "/v1/apps/app-1/query", "/metadata/identity/oauth2/token"
READING_POSTS = frozenset({TOKEN_PATH})
"""Buys the token; everything else is GET."""
RESOURCE = (
    "/subscriptions/s-1/resourceGroups/rg/providers/Microsoft.OperationalInsights/workspaces/main"
)
SITE = "/subscriptions/s-1/resourcegroups/rg/providers/microsoft.web/sites/payments-prod"
SECRET = "entra-secret-1"
CHANGED = ONSET - timedelta(minutes=2)
START = ALERT_AT - timedelta(minutes=150)
ROLES = {"checkout": "checkout", "payments": "payments-prod"}


def settings(url: str) -> dict[str, Any]:
    """A workspace, read with an application's secret; one table of logs."""
    own = {
        "workspace_id": "ws-1",
        "workspace_resource_id": RESOURCE,
        "tenant_id": "tenant-1",
        "client_id": "client-1",
    }
    own |= {
        "client_secret": SECRET,
        "api_url": url,
        "login_url": url,
        "management_url": url,
        "portal_url": "https://portal.azure.com",
    }
    services = {
        "checkout": {"depends_on": ["payments"]},
        "payments": {"azure_role_name": "payments-prod"},
    }
    return {"azure_monitor": {**own, "log_tables": ["AppServiceConsoleLogs"]}, "services": services}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(
        TOKEN_PATH, Reply({"token_type": "Bearer", "expires_in": 3599, "access_token": "token-1"})
    )
    server.on(
        IDENTITY_PATH,
        Reply({"token_type": "Bearer", "expires_in": "3599", "access_token": "token-2"}),
    )
    server.on(QUERY_PATH, answer)
    server.on(APPLICATION_PATH, answer)


def answer(asked: Asked) -> Reply:
    """By what the query asks for."""
    text, timespan = asked.query["query"][0], asked.query["timespan"][0]
    if "/" not in timespan:
        return result(["print_0"], [[1]])
    start, end = (datetime.fromisoformat(t) for t in timespan.split("/"))
    minutes = [m for m in _minutes() if start <= m < end]
    if "requests = sum" in text:
        return result(
            ["moment", "role", "requests", "failed", "p50", "p99"],
            [r for m in minutes for r in _requests(m)],
        )
    if "calls = sum" in text:
        return result(
            ["moment", "role", "target", "calls", "failed", "p99"], [_calls(m) for m in minutes]
        )
    if "let chosen" in text:
        return result(SPANS, [r for n, m in enumerate(minutes) for r in _spans(m, n)])
    if text.startswith("let lines = AppServiceConsoleLogs"):
        lines = [
            [_utc(m), SITE, "", "worker is alive", "Informational", len(minutes)] for m in minutes
        ]
        return result([*LOGS, "total"], lines)
    if "let lines" in text:
        return result([*LOGS, "total"], [r for m in minutes for r in _lines(m)])
    if text.startswith("AzureActivity"):
        return result(CHANGES, _changes())
    return result(["Column1"], [])


LOGS = ["moment", "role", "trace", "message", "severity"]
SPANS = [
    "moment",
    "role",
    "trace",
    "id",
    "parent",
    "name",
    "duration",
    "success",
    "code",
    "span_kind",
    "target",
]
CHANGES = ["correlation", "operation", "resource", "moment", "caller", "level"]


def result(columns: Sequence[str], rows: Sequence[Sequence[Any]], **more: Any) -> Reply:
    """The documented answer: tables of columns and rows."""
    table = {
        "name": "PrimaryResult",
        "columns": [{"name": c, "type": "string"} for c in columns],
        "rows": rows,
    }
    return Reply({"tables": [table], **more})


def _minutes() -> Iterator[datetime]:
    at = START
    while at < ALERT_AT:
        yield at
        at += timedelta(minutes=1)


def _requests(at: datetime) -> list[list[Any]]:
    wobble = (at.minute * 7) % 5
    late = at >= ONSET
    rows = []
    for role, base in (("checkout", 90), ("payments-prod", 40)):
        slow = 3_000 if late else 0
        rows.append(
            [
                _utc(at),
                role,
                120 + wobble,
                30 if late else 0,
                base + wobble + slow,
                3 * base + wobble + slow,
            ]
        )
    return rows


def _calls(at: datetime) -> list[Any]:
    late = at >= ONSET
    return [
        _utc(at),
        "payments-prod",
        "tcp:db.example.com,1433 | pay",
        120,
        30 if late else 0,
        3_010 if late else 10,
    ]


def _spans(at: datetime, number: int) -> list[list[Any]]:
    late = at >= ONSET
    own, slow, failed = number % 4, 3_000 if late else 0, late and number % 4 == 0
    trace = f"{int(at.timestamp()):032x}"
    names = (
        ("checkout", "a", trace, "POST /pay", 90, "request", ""),
        ("checkout", "b", "a", "POST /charge", 70, "HTTP", "payments"),
        ("payments-prod", "c", "b", "POST /charge", 40, "request", ""),
        ("payments-prod", "d", "c", "pay", 10, "SQL", "db.example.com"),
    )
    rows = []
    for role, id, parent, name, base, kind, target in names:
        above = parent if parent == trace else f"{number}{parent}"
        told = [base + own + slow, not failed, "500" if failed else "200", kind, target]
        rows.append([_utc(at), role, trace, f"{number}{id}", above, name, *told])
    return rows


def _lines(at: datetime) -> list[list[Any]]:
    said = [
        [_utc(at), role, "", f"served order {at.minute * 31}", 1, 300] for role in ROLES.values()
    ]
    if at >= ONSET:
        text = (
            "Microsoft.Data.SqlClient.SqlException: Execution Timeout "
            "Expired at Payments.Pool.Acquire"
        )
        said += [
            [_utc(at + timedelta(seconds=n)), "payments-prod", "", text, 3, 300] for n in range(6)
        ]
    return said


def _changes() -> list[list[Any]]:
    write = "MICROSOFT.WEB/SITES/CONFIG/WRITE"
    other = (
        "/subscriptions/s-1/resourcegroups/rg/providers/microsoft.storage/storageaccounts/archive"
    )
    return [
        ["c-1", write, SITE, _utc(CHANGED), "dana@example.com", "Informational"],
        [
            "c-2",
            "MICROSOFT.STORAGE/STORAGEACCOUNTS/WRITE",
            other,
            _utc(CHANGED - timedelta(hours=9)),
            "sp-1",
            None,
        ],
    ]


def _utc(at: datetime) -> str:
    return (
        at.strftime("%Y-%m-%dT%H:%M:%S.1234567Z")
        if at.second
        else at.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
