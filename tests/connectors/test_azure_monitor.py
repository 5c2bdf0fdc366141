"""The Azure Monitor connector against a local server that answers in the documented shapes of the
query API v1."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import SCHEMAS, conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import BudgetExceeded, ConnectorError, SettingsError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.settings import Settings
from faultline.connectors.shared.auth.azure_token import Credential, Tokens
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.vendors.azure import CONNECTOR
from faultline.connectors.vendors.azure import queries as kql
from faultline.connectors.vendors.azure import rows as azure_rows
from faultline.connectors.vendors.azure.connector import LIMITS, AzureMonitorConnector
from faultline.connectors.vendors.azure.queries import LogTable, literal
from faultline.connectors.vendors.azure.session import WAIT_S, QueryApi
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import azure_monitor as stand_in
from tests.connectors.stand_ins.azure_monitor import (
    APPLICATION_PATH,
    CHANGED,
    IDENTITY_PATH,
    QUERY_PATH,
    SECRET,
    TOKEN_PATH,
)


@pytest.fixture
def azure(server: LocalServer) -> LocalServer:
    """Azure, with its incident."""
    stand_in.serve(server)
    return server


def connector(server: LocalServer, **own: Any) -> AzureMonitorConnector:
    """From settings, as the bot builds it; `own` replaces keys of the section."""
    tables = stand_in.settings(server.url)
    tables["azure_monitor"] = {
        k: v for k, v in (tables["azure_monitor"] | own).items() if v is not None
    }
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    return built


def collect(server: LocalServer, folder: Path, **own: Any) -> Collected:
    """What is collected for an alert about checkout, which calls payments."""
    alert = Alert(
        source="pagerduty", title="Checkout is slow", started_at=ALERT_AT, service="checkout"
    )
    request = request_for(folder, services=("checkout", "payments"), alert=alert)
    return asyncio.run(collect_from(connector(server, **own), request))


def reasons(found: Collected) -> str:
    """All gaps in one text."""
    return " | ".join(f"{m.kind}: {m.reason}" for m in found.missing)


def queries(server: LocalServer) -> list[str]:
    """The texts that were asked."""
    return [a.query["query"][0] for a in server.asked if "query" in a.query]


def test_requests_become_the_golden_signals(azure: LocalServer, tmp_path: Path) -> None:
    found = collect(azure, tmp_path)
    metrics = conform(found.tables["metrics"], "metrics", "metrics")
    assert set(metrics["service"]) == {"checkout", "payments"}
    late = metrics.filter(
        metrics["time"] == ONSET, metrics["service"] == "payments", metrics["labels"].is_null()
    )
    values = dict(zip(late["signal"], late["value"], strict=True))
    assert values["error_ratio"] == pytest.approx(0.25, abs=0.01)
    assert values["request_rate"] == pytest.approx(2, abs=0.1)
    assert values["latency_p99"] > 3_000
    assert found.missing == ()


def test_a_minute_without_failures_has_an_error_ratio_of_zero(
    azure: LocalServer, tmp_path: Path
) -> None:
    metrics = collect(azure, tmp_path).tables["metrics"]
    early = metrics.filter(metrics["signal"] == "error_ratio", metrics["time"] < ONSET)
    assert set(early["service"]) == {"checkout", "payments"}
    assert set(early["value"]) == {0}


def test_figures_below_zero_or_beyond_measure_are_left_out() -> None:
    row = {"moment": "2026-03-02T12:00:00Z", "role": "web", "requests": 60}
    figures = {"failed": -1, "p50": 10**400, "p99": "NaN"}
    metrics = azure_rows.request_metrics([row | figures], str)
    assert metrics.select("signal", "value").rows() == [("request_rate", 1.0)]


def test_dependencies_become_metrics_by_target(azure: LocalServer, tmp_path: Path) -> None:
    metrics = collect(azure, tmp_path).tables["metrics"]
    calls = metrics.filter(metrics["signal"] == "dependency_latency_p99")
    assert json.loads(calls["labels"][0]) == {"target": "tcp:db.example.com,1433 | pay"}
    assert calls.filter(calls["time"] >= ONSET)["value"].min() == 3_010


def test_operations_become_traces_across_services(azure: LocalServer, tmp_path: Path) -> None:
    spans = conform(collect(azure, tmp_path).tables["spans"], "spans", "spans")
    one = {
        r["operation"] + r["service"]: r
        for r in spans.filter(spans["trace_id"] == spans["trace_id"][0]).to_dicts()
    }
    assert len(one) == 4
    root, charge = one["POST /paycheckout"], one["POST /chargepayments"]
    assert root["parent_id"] is None
    assert charge["parent_id"] == one["POST /chargecheckout"]["span_id"]
    assert charge["duration_us"] >= 40_000
    assert {"OK", "ERROR"} == set(spans["status"])


def test_traces_exceptions_and_log_tables_become_logs(azure: LocalServer, tmp_path: Path) -> None:
    logs = conform(collect(azure, tmp_path).tables["logs"], "logs", "logs")
    thrown = logs.filter(logs["message"].str.contains("SqlException"))
    assert (set(thrown["service"]), set(thrown["level"])) == ({"payments"}, {"ERROR"})
    assert thrown["time"].min() == ONSET
    alive = logs.filter(logs["message"] == "worker is alive")
    assert (set(alive["service"]), set(alive["level"])) == ({"payments"}, {"INFORMATIONAL"})


def test_writes_of_the_activity_log_become_changes(azure: LocalServer, tmp_path: Path) -> None:
    changes = conform(collect(azure, tmp_path).tables["changes"], "changes", "changes")
    by_id = {r["id"]: r for r in changes.to_dicts()}
    assert (by_id["c-1"]["time"], by_id["c-1"]["service"], by_id["c-1"]["kind"]) == (
        CHANGED,
        "payments",
        "config",
    )
    assert (
        by_id["c-1"]["title"]
        == "microsoft.web/sites/config/write on microsoft.web/sites/payments-prod"
    )
    assert by_id["c-2"]["service"] is None
    assert by_id["c-1"]["author"] == "dana@example.com"


def test_each_item_opens_its_query_in_the_portal(azure: LocalServer, tmp_path: Path) -> None:
    found = collect(azure, tmp_path)
    assert len(found.items) == 7
    for item in found.items:
        assert item.link is not None
        head, _, rest = item.link.partition("/q/")
        assert unquote(head).endswith(
            f"/resourceId/{stand_in.RESOURCE}/source/LogsBlade.AnalyticsShareLinkToQuery"
        )
        packed, _, timespan = rest.partition("/timespan/")
        text = gzip.decompress(base64.b64decode(unquote(packed))).decode()
        assert item.query == f"GET {QUERY_PATH} timespan={unquote(timespan)} query={text}"
    assert all(i.link is None for i in collect(azure, tmp_path, workspace_resource_id=None).items)


def test_a_secret_is_spent_on_a_token_and_queries_are_sent_with_get(
    azure: LocalServer, tmp_path: Path
) -> None:
    collect(azure, tmp_path)
    (bought,) = [a for a in azure.asked if a.path == TOKEN_PATH]
    assert bought.method == "POST"
    form = {k: v[0] for k, v in parse_qs(bought.body.decode()).items()}
    assert form == {
        "grant_type": "client_credentials",
        "client_id": "client-1",
        "client_secret": SECRET,
        "scope": f"{azure.url}/.default",
    }
    asked = [a for a in azure.asked if a.path == QUERY_PATH]
    assert {a.method for a in asked} == {"GET"}
    assert {a.headers["Authorization"] for a in asked} == {"Bearer token-1"}
    assert {a.headers["Prefer"] for a in asked} == {"wait=18"}


def test_a_token_is_kept_until_it_nears_its_end(azure: LocalServer, tmp_path: Path) -> None:
    own = connector(azure)
    for _ in range(2):
        asyncio.run(own.check())
    assert azure.paths().count(TOKEN_PATH) == 1
    azure.on(TOKEN_PATH, Reply({"access_token": "short", "expires_in": 60}))
    own = connector(azure)
    for _ in range(2):
        asyncio.run(own.check())
    assert azure.paths().count(TOKEN_PATH) == 3


def test_without_a_secret_the_managed_identity_is_asked(azure: LocalServer, tmp_path: Path) -> None:
    found = collect(azure, tmp_path, client_secret=None, identity_url=azure.url)
    (bought,) = [a for a in azure.asked if a.path == IDENTITY_PATH]
    assert (bought.method, bought.headers["Metadata"], bought.query["client_id"]) == (
        "GET",
        "true",
        ["client-1"],
    )
    assert bought.query["api-version"] == ["2018-02-01"]
    assert found.missing == ()
    assert azure.methods == {"GET"}


def test_the_token_of_the_public_cloud_is_for_its_first_name() -> None:
    tokens = Tokens(Credential("https://login.example", "http://x"), Limits())
    api = QueryApi("https://api.loganalytics.azure.com", tokens, Limits(), "k")
    assert api.audience == "https://api.loganalytics.io"


def test_a_classic_application_is_asked_in_its_own_schema(
    azure: LocalServer, tmp_path: Path
) -> None:
    found = collect(azure, tmp_path, application_id="app-1", applications_url=azure.url)
    classic = [a.query["query"][0] for a in azure.asked if a.path == APPLICATION_PATH]
    assert len(classic) == 5
    assert all("cloud_RoleName in~" in q and "AppRoleName" not in q for q in classic)
    assert not any("AppRequests" in q for q in queries(azure))
    assert found.tables["spans"].height


async def other_requests(server: LocalServer) -> None:
    """Everything that must not leave."""
    credential = Credential(server.url, server.url, "tenant-1", "client-1", SECRET)
    tokens = Tokens(credential, Limits())
    for method, url in (
        ("POST", f"{server.url}/tenant-2/oauth2/v2.0/token"),
        ("GET", credential.token_url),
    ):
        with pytest.raises(ConnectorError):
            tokens._buying_only(httpx.Request(method, url))
    api = QueryApi(server.url, tokens, Limits(), "k")
    for method, url in (
        ("POST", f"{server.url}{QUERY_PATH}"),
        ("DELETE", f"{server.url}/v1/x"),
        ("GET", f"{server.url}/v2/x"),
        ("GET", "http://elsewhere.example/v1/x"),
    ):
        with pytest.raises(ConnectorError):
            api._queries_only(httpx.Request(method, url))


def test_anything_but_buying_a_token_and_get_is_refused_before_it_is_sent(
    azure: LocalServer,
) -> None:
    asyncio.run(other_requests(azure))
    assert azure.asked == []


ERRORS: tuple[tuple[int, Any, str], ...] = (
    (
        401,
        {"error": {"code": "AuthenticationFailed", "message": "x"}},
        "authentication failed (HTTP 401)",
    ),
    (
        403,
        {"error": {"code": "InsufficientAccessError", "message": "x"}},
        "not permitted with these credentials",
    ),
    (404, {"error": {"code": "PathNotFoundError", "message": "x"}}, "not found (HTTP 404)"),
    (
        400,
        {
            "error": {
                "message": "The request had some invalid properties",
                "code": "BadArgumentError",
                "innererror": {
                    "code": "SemanticError",
                    "message": "A semantic error occurred.",
                    "innererror": {
                        "code": "SEM0100",
                        "message": "Failed to resolve table named 'AppRequests'",
                    },
                },
            }
        },
        (
            "the request was not accepted: SEM0100: Failed to resolve "
            "table named 'AppRequests' (HTTP 400)"
        ),
    ),
    (500, b"oops", "refused (HTTP 500)"),
    (200, b'{"tables": [{"name"', "unexpected response"),
    (200, {"tables": 5}, "unexpected response"),
    (200, {"tables": []}, "the answer holds no table"),
    (
        200,
        {"tables": [], "error": {"code": "PartialError", "message": "too large"}},
        "PartialError: too large",
    ),
)
"""Bodies of learn.microsoft.com, "Azure Monitor Log Analytics API errors"."""


@pytest.mark.parametrize(("status", "body", "said"), ERRORS)
def test_a_refused_query_is_a_gap_and_the_rest_stands(
    azure: LocalServer, tmp_path: Path, status: int, body: Any, said: str
) -> None:
    def answer(asked: Asked) -> Reply:
        broken = "requests = sum" in asked.query["query"][0]
        return Reply(body, status=status) if broken else stand_in.answer(asked)

    azure.on(QUERY_PATH, answer)
    found = collect(azure, tmp_path)
    assert said in reasons(found)
    assert "internal error" not in reasons(found)
    assert {m.kind for m in found.missing} == {"metrics"}
    assert found.tables["logs"].height


def test_a_partial_answer_is_kept_beside_its_gap(azure: LocalServer, tmp_path: Path) -> None:
    inner = {
        "code": "-2133196797",
        "message": "The results of this query exceed the set limit of 500000 records",
    }
    error = {
        "code": "PartialError",
        "message": "There were some errors",
        "details": [],
        "innererror": inner,
    }

    def answer(asked: Asked) -> Reply:
        whole = stand_in.answer(asked)
        partial = "requests = sum" in asked.query["query"][0]
        return Reply(whole.body | {"error": error}) if partial else whole

    azure.on(QUERY_PATH, answer)
    found = collect(azure, tmp_path)
    assert "only a part was answered: -2133196797: The results of this query exceed" in reasons(
        found
    )
    assert "latency_p99" in set(found.tables["metrics"]["signal"])


def test_a_workspace_without_data_is_no_gap(azure: LocalServer, tmp_path: Path) -> None:
    azure.on(QUERY_PATH, Reply(b"", status=204))
    found = collect(azure, tmp_path)
    assert found.missing == ()
    assert all(i.rows == 0 for i in found.items)


def test_a_limit_is_waited_for(azure: LocalServer, tmp_path: Path) -> None:
    first = [
        Reply({"error": {"code": "ThrottledError", "message": "x"}}, 429, {"Retry-After": "0"})
    ]
    azure.on(QUERY_PATH, lambda asked: first.pop() if first else stand_in.answer(asked))
    assert collect(azure, tmp_path).missing == ()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (
            401,
            {
                "error": "invalid_client",
                "error_description": f"AADSTS7000215: Invalid client secret {SECRET} tenant-1",
            },
            "no token was given: invalid_client, AADSTS7000215 (HTTP 401)",
        ),
        (400, {"error": "unauthorized_client"}, "no token was given: unauthorized_client"),
        (500, b"<html>", "unexpected response (HTTP 500)"),
        (200, {"token_type": "Bearer"}, "unexpected response"),
        (200, {"access_token": "a\nb", "expires_in": 1}, "the answer holds no usable token"),
        (200, {"access_token": "a", "expires_in": "soon"}, "unexpected response"),
    ],
)
def test_without_a_token_everything_is_a_gap(
    azure: LocalServer, tmp_path: Path, status: int, body: Any, said: str
) -> None:
    azure.on(TOKEN_PATH, Reply(body, status=status))
    found = collect(azure, tmp_path)
    assert said in reasons(found)
    assert SECRET not in reasons(found)
    assert {m.kind for m in found.missing} == {"metrics", "spans", "logs", "changes"}
    assert QUERY_PATH not in azure.paths()


def test_a_login_that_drips_is_left_at_the_deadline(azure: LocalServer) -> None:
    azure.on(TOKEN_PATH, Reply({"access_token": "x" * 10_000, "expires_in": 1}, drip_s=0.05))
    tokens = Tokens(Credential(azure.url, azure.url, "tenant-1", "client-1", SECRET), Limits())
    with pytest.raises(BudgetExceeded):
        asyncio.run(tokens.token("https://x", Deadline.after(0.5)))


def test_a_login_that_answers_without_end_is_cut(azure: LocalServer) -> None:
    azure.on(TOKEN_PATH, Reply(b'{"access_token": "' + b"x" * 1_000_000))
    tokens = Tokens(Credential(azure.url, azure.url, "tenant-1", "client-1", SECRET), Limits())
    with pytest.raises(ConnectorError, match="unexpected response"):
        asyncio.run(tokens.token("https://x", Deadline.after(30)))


def test_documented_limits_are_the_real_ones() -> None:
    page = (Path(__file__).parents[2] / "docs/connectors/azure_monitor.md").read_text()
    said = " ".join(page.split())
    rate = f"{LIMITS.requests_per_s:g} queries a second and {LIMITS.concurrency} at once"
    assert f"{rate}, {LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds" in said
    assert f"one query may take {WAIT_S} seconds" in said
    assert f"Of more than {kql.MOST_ROWS:,} lines" in said
    assert f"of {kql.MOST_TRACES} operations" in said
    assert f"the latest {kql.MOST_CHANGES} " in said
    assert all(f"`{table}`" in page for table in kql.LOG_TABLES)
    for signal in (
        "request_rate",
        "error_ratio",
        "latency_p50",
        "latency_p99",
        "dependency_latency_p99",
    ):
        assert f"`{signal}`" in page


def test_names_cannot_leave_their_literal(azure: LocalServer, tmp_path: Path) -> None:
    evil = 'x") | union (SigninLogs\n| take 5'
    assert literal(evil) == '"x\\") | union (SigninLogs | take 5"'
    assert literal('\\"') == '"\\\\\\""'
    alert = Alert(source="x", title="t", started_at=ALERT_AT, service=evil)
    asyncio.run(collect_from(connector(azure), request_for(tmp_path, alert=alert)))
    assert any('in~ ("x\\") | union (SigninLogs | take 5")' in q for q in queries(azure))


@given(st.text(max_size=60))
def test_a_literal_ends_where_it_should(text: str) -> None:
    inside = literal(text)[1:-1]
    assert inside.replace("\\\\", "").replace('\\"', "").count('"') == 0
    assert not inside.replace("\\\\", "").endswith("\\")
    assert inside.isprintable()


@pytest.mark.parametrize("text", ["Perf", "T:a", "T:a:b:c:d", "T | take 1:a:b", "T:a b:c", ""])
def test_a_table_of_logs_must_be_known_or_name_its_columns(text: str) -> None:
    with pytest.raises(ValueError, match="Table:message:service:level"):
        LogTable.of(text)


def test_a_table_with_its_columns_is_asked(azure: LocalServer, tmp_path: Path) -> None:
    collect(azure, tmp_path, log_tables=["Orders_CL:Text_s:Service_s"])
    (asked,) = [q for q in queries(azure) if "Orders_CL" in q]
    assert '| where Service_s has "checkout" or Service_s has "payments-prod"' in asked
    assert "message = tostring(Text_s)" in asked


def test_a_secret_without_its_application_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="tenant_id"):
        CONNECTOR.configured(
            Settings.model_validate({"azure_monitor": {"workspace_id": "w", "client_secret": "s"}})
        )


@pytest.mark.parametrize("schema", [kql.WORKSPACE, kql.APPLICATION])
def test_every_query_is_bounded_and_balanced(schema: kql.Schema) -> None:
    table = LogTable("T_CL", "m", "s")
    roles = ["checkout"]
    texts = [kql.requests(schema, roles), kql.dependencies(schema, roles), kql.spans(schema, roles)]
    texts += [kql.logs(schema, roles), kql.table_logs(table, roles), kql.changes()]
    for text in texts:
        assert f"take {kql.MOST_ROWS}" in text or f"top {kql.MOST_CHANGES} by" in text
        assert text.count("(") == text.count(")")
        assert text.count('"') % 2 == 0
        assert len(text) < 2_000


HOSTILE_ROWS: tuple[dict[str, Any], ...] = (
    {},
    {"moment": 5, "role": [], "requests": "NaN"},
    {"moment": "9999-01-01T00:00:00Z", "role": "r", "requests": 1},
    {
        "moment": "2026-03-02T12:00:00.1234567Z",
        "role": "r",
        "requests": 10**400,
        "trace": "t",
        "id": "i",
        "duration": -1,
    },
    {
        "moment": "2026-03-02T12:00:00Z",
        "role": "r" * 9_999,
        "message": "m\x00" * 9_999,
        "severity": {"a": 1},
    },
    {
        "moment": "2026-03-02T12:00:00Z",
        "operation": "x" * 999,
        "resource": "/" * 9_999,
        "correlation": None,
    },
)


def test_hostile_rows_make_tables_that_fit() -> None:
    made = {
        "metrics": [
            azure_rows.request_metrics(HOSTILE_ROWS, str),
            azure_rows.dependency_metrics(HOSTILE_ROWS, str),
        ],
        "spans": [azure_rows.spans_table(HOSTILE_ROWS, str)],
        "logs": [azure_rows.logs_table(HOSTILE_ROWS, str)],
        "changes": [azure_rows.changes_table(HOSTILE_ROWS, lambda _: None, None)],
    }
    for name, tables in made.items():
        for table in tables:
            conform(table, name, name)


def test_seven_digits_of_a_second_are_understood() -> None:
    assert azure_rows.time_of("2026-03-02T12:00:00.1234567Z") == datetime(
        2026, 3, 2, 12, 0, 0, 123456, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("MICROSOFT.RESOURCES/DEPLOYMENTS/WRITE", "deploy"),
        ("MICROSOFT.APP/CONTAINERAPPS/WRITE", "deploy"),
        ("MICROSOFT.WEB/SITES/SLOTSSWAP/ACTION", "deploy"),
        ("MICROSOFT.INSIGHTS/AUTOSCALESETTINGS/WRITE", "scale"),
        ("MICROSOFT.WEB/SITES/CONFIG/WRITE", "config"),
        ("MICROSOFT.WEB/SITES/RESTART/ACTION", "config"),
    ],
)
def test_kinds_of_changes(operation: str, kind: str) -> None:
    assert azure_rows.kind_of(operation) == kind


def test_check_says_which_tables_can_be_read(azure: LocalServer) -> None:
    def answer(asked: Asked) -> Reply:
        missing = asked.query["query"][0].startswith("AzureActivity")
        return (
            Reply({"error": {"code": "X", "message": "no such table"}}, 400)
            if missing
            else stand_in.answer(asked)
        )

    azure.on(QUERY_PATH, answer)
    said = asyncio.run(connector(azure).check())
    assert said.ok
    assert (
        "AppRequests, AppTraces, AppServiceConsoleLogs can be read; AzureActivity cannot be read"
        in said.line
    )


def test_check_of_a_refused_credential(azure: LocalServer) -> None:
    azure.on(QUERY_PATH, Reply({"error": {"code": "InsufficientAccessError", "message": "x"}}, 403))
    said = asyncio.run(connector(azure).check())
    assert not said.ok
    assert "not permitted with these credentials" in said.line


def diagnosed(server: LocalServer, folder: Path) -> Diagnosis:
    """The case that a collection makes, diagnosed."""
    (folder / "traces").mkdir(parents=True)
    alert = Alert(
        source="pagerduty", title="Checkout is slow", started_at=ALERT_AT, service="checkout"
    )
    request = request_for(folder / "traces", services=("checkout", "payments"), alert=alert)
    found = asyncio.run(collect_from(connector(server), request))
    write_json(folder / "alert.json", alert)
    write_json(folder / "scope.json", request.scope)
    items = [
        Evidence(id=f"E{n}", kind=i.kind, source="azure_monitor", query=i.query)
        for n, i in enumerate(found.items)
    ]
    gaps = [
        Gap(id=f"G{n}", kind=m.kind, source="a", query=m.query, reason=m.reason)
        for n, m in enumerate(found.missing)
    ]
    write_evidence(folder, items, gaps)
    for name in SCHEMAS:
        if name in found.tables and found.tables[name].height:
            write_table(folder, name, found.tables[name])
    return diagnose(read_case(folder))


def test_the_database_that_is_refused_and_the_write_near_it_are_diagnosed(
    azure: LocalServer, tmp_path: Path
) -> None:
    found = diagnosed(azure, tmp_path)
    assert found.verdict == "cause_found"
    assert [c.subject for c in found.causes[:2]] == ["payments", "tcp:db.example.com,1433 | pay"]
    # Its one caller was reconfigured two minutes before, which says more than the timeouts do.
    assert found.causes[0].change == "c-1"
    (near,) = [f for f in found.findings if f.kind == "change_near"]
    assert near.details.written()["change"] == "c-1"
    assert any("SqlException" in f.sentence for f in found.findings)


def searched(asked: Asked) -> Reply:
    """Failed requests of one role in bins of five minutes; those of calm minutes have no row."""
    text = asked.query["query"][0]
    assert text.endswith("by faultline_at = bin(TimeGenerated, 300s), ['AppRoleName']")
    start, end = (datetime.fromisoformat(t) for t in asked.query["timespan"][0].split("/"))
    rows = []
    at = ONSET.replace(minute=ONSET.minute // 5 * 5)
    while at < ALERT_AT:
        if start <= at < end:
            rows.append([at.strftime("%Y-%m-%dT%H:%M:%SZ"), "checkout", 40])
        at += timedelta(minutes=5)
    return stand_in.result(["faultline_at", "AppRoleName", "faultline_value"], rows)


def log_alert(text: str, **more: Any) -> Alert:
    query = AlertQuery(
        language="kql",
        text=text,
        statistic="Count",
        comparison=">",
        threshold=10,
        window_s=300,
        dimensions={"AppRoleName": "checkout"},
    )
    query = query.model_copy(update=more)
    return Alert(source="azure_monitor", title="5xx", started_at=ALERT_AT, query=query)


def evaluated(server: LocalServer, folder: Path, alert: Alert) -> Collected:
    source = AlertQueryConnector([connector(server)])
    return asyncio.run(collect_from(source, request_for(folder, alert=alert)))


def test_a_log_rule_is_counted_in_its_own_windows(azure: LocalServer, tmp_path: Path) -> None:
    azure.on(QUERY_PATH, searched)
    text = "AppRequests | where TimeGenerated > ago(5m) | where Success == false"
    rows = evaluated(azure, tmp_path, log_alert(text)).tables["alert_query"]
    sent = [asked.query["query"][0] for asked in azure.asked if asked.path == QUERY_PATH]
    assert all("ago(" not in query and "| where Success == false" in query for query in sent)
    true = rows.filter(rows["is_true"] > 0)
    assert true["time"].min() == ONSET.replace(minute=ONSET.minute // 5 * 5)
    assert set(true["series"]) == {'{"AppRoleName": "checkout"}'}
    # A window without a row counts none.
    assert rows.filter(rows["is_true"] == 0)["value"].max() == 0
    assert {asked.method for asked in azure.asked if asked.path == QUERY_PATH} == {"GET"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AppRequests | where TimeGenerated > ago(2h) and x > 1", "counts back from now"),
        ("externaldata(a:string)['https://x.example']", "outside the workspace"),
        ("requests | where success == false", "azure_monitor.application_id"),
    ],
)
def test_a_log_rule_that_cannot_be_asked_is_a_gap(
    azure: LocalServer, tmp_path: Path, text: str, reason: str
) -> None:
    (gap,) = evaluated(azure, tmp_path, log_alert(text)).missing
    assert reason in gap.reason


def test_a_metric_measurement_of_the_first_version_has_its_times(
    azure: LocalServer, tmp_path: Path
) -> None:
    def measured(asked: Asked) -> Reply:
        columns = ["timestamp", "cloud_RoleName", "AggregatedValue"]
        start, end = (datetime.fromisoformat(t) for t in asked.query["timespan"][0].split("/"))
        row = [ONSET.strftime("%Y-%m-%dT%H:%M:%S.0000000Z"), "checkout", 30.0]
        return stand_in.result(columns, [row] if start <= ONSET < end else [])

    azure.on(APPLICATION_PATH, measured)
    text = "requests | summarize AggregatedValue = count() by bin(timestamp, 5m), cloud_RoleName"
    alert = log_alert(text, statistic=None, dimensions={"cloud_RoleName": "checkout"})
    url = azure.url
    own = {"workspace_id": None, "application_id": "app-1", "applications_url": url}
    source = AlertQueryConnector([connector(azure, **own)])
    found = asyncio.run(collect_from(source, request_for(tmp_path, alert=alert)))
    (row,) = found.tables["alert_query"].iter_rows(named=True)
    assert (row["time"], row["value"], row["is_true"]) == (ONSET, 30.0, 1.0)
