"""The Loki connector over real HTTP: what it asks, how it cuts, and how it handles refusals and
hostile answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import Alert, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES, CountGrid
from faultline.connectors.vendors.loki import CONNECTOR
from faultline.connectors.vendors.loki.answers import Counted, LokiStream, count_rows, line_rows
from faultline.connectors.vendors.loki.connector import ERRORS, LokiConnector
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import loki as stand_in

RANGE = "/loki/api/v1/query_range"


def connector(server: LocalServer, **more: Any) -> LokiConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url) | more))
    assert built is not None
    return built


def queries(server: LocalServer) -> list[str]:
    """What was asked of the range."""
    return [a.query["query"][0] for a in server.asked if a.path == RANGE]


def streams(*values: list[Any], labels: dict[str, str] | None = None) -> dict[str, Any]:
    """An answer with lines."""
    result = [{"stream": labels or {"service_name": "checkout"}, "values": list(values)}]
    return {"status": "success", "data": {"resultType": "streams", "result": result}}


def test_errors_a_sample_and_counts_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    logs = conform(found.tables["logs"], "logs", "logs")
    errors = logs.filter(pl.col("level") == "error")
    assert errors.height == 60
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [stand_in.TRACE_ID]
    assert json.loads(errors["attributes"][0])["pod"] == "checkout-7d9f"
    assert logs.filter(pl.col("level") == "info", pl.col("time") < ONSET).height > 300
    metrics = conform(found.tables["metrics"], "metrics", "metrics")
    per_minute = metrics.filter(pl.col("signal") == ERROR_LINES).sort("time")
    assert per_minute.height == 150
    assert per_minute.filter(pl.col("time") < ONSET)["value"].sum() == 0
    assert per_minute.filter(pl.col("time") > ONSET)["value"].median() == 6
    assert metrics.filter(pl.col("signal") == LINES)["value"].median() == 6


def test_every_item_links_to_explore_at_its_query_and_window(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, grafana={"public_url": "https://grafana.example.com"})
    for item in collected(tmp_path, built).items:
        assert item.link is not None
        assert item.window is not None
        asked = parse_qs(urlsplit(item.link).query)
        pane = json.loads(asked["panes"][0])["a"]
        assert pane["queries"][0]["expr"] == item.query
        assert pane["range"]["from"] == str(round(item.window.start.timestamp() * 1000))
        assert item.link.startswith("https://grafana.example.com/explore?")


def test_without_grafana_an_item_links_to_the_query_itself(
    server: LocalServer, tmp_path: Path
) -> None:
    links = [item.link or "" for item in collected(tmp_path, connector(server)).items]
    assert all(link.startswith(server.url + RANGE) for link in links)


def test_the_tenant_and_the_credentials_are_sent(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server))
    sent = server.asked[0].headers
    assert (sent["X-Scope-Orgid"], sent["Authorization"]) == ("acme", "Bearer t")
    cloud = {"loki": stand_in.settings(server.url)["loki"] | {"username": "12345"}}
    collected(tmp_path, connector(server, **cloud))
    assert server.asked[-1].headers["Authorization"] == "Basic MTIzNDU6dA=="


def test_where_a_window_holds_more_lines_the_rest_is_asked_in_thirds(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    start = ALERT_AT.timestamp() - 1800

    def many(asked: Asked) -> Reply:
        if "count_over_time" in asked.query["query"][0]:
            return stand_in.answer(asked)
        first, limit = int(asked.query["start"][0]), int(asked.query["limit"][0])
        return Reply(streams(*([str(first + n), f"line {n}"] for n in range(limit))))

    server.on(RANGE, many)
    found = collected(tmp_path, built)
    items = [
        i
        for i in found.items
        if i.kind == "logs" and i.window and i.window.start.timestamp() == start
    ]
    assert [i.cut for i in items if i.rows and i.rows > 1000] == [
        (
            f"the first {ERRORS} lines of the window, and the first "
            f"{ERRORS // 3} of each third of the rest"
        )
    ]
    limits = [int(a.query["limit"][0]) for a in server.asked if "limit" in a.query]
    assert limits.count(ERRORS // 3) == 6


def test_a_rest_that_is_read_whole_is_not_cut(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    errors = [i for i in found.items if i.kind == "logs" and "detected_level" in i.query]
    assert [i.cut for i in errors] == [None, None]


def test_loki_2_without_levels_is_asked_for_words_and_counts_no_errors(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)

    def old(asked: Asked) -> Reply:
        if "count_over_time" in asked.query["query"][0]:
            points = [[int(asked.query["start"][0]), "7"]]
            return Reply(
                {"data": {"resultType": "matrix", "result": [{"metric": {}, "values": points}]}}
            )
        at = str(round(ONSET.timestamp()) * 10**9)
        return Reply(
            streams([at, "Exception: no stock"], labels={"job": "checkout", "trace_id": "abc123"})
        )

    server.on(RANGE, old)
    found = collected(tmp_path, built)
    assert any('|~ "(?i)(error|exception' in query for query in queries(server))
    assert found.tables["metrics"]["signal"].unique().to_list() == [LINES]
    assert found.tables["logs"].select("message", "level", "trace_id").rows() == [
        ("Exception: no stock", None, f"{0xABC123:032x}")
    ]


def test_a_service_is_found_by_alias_by_the_tail_of_a_job_and_in_any_case(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, services={"checkout": {"aliases": ["basket-api"]}})
    server.on("/loki/api/v1/labels", Reply({"data": ["job", "app"]}))
    server.on("/loki/api/v1/label/app/values", Reply({"data": ["other"]}))
    server.on("/loki/api/v1/label/job/values", Reply({"data": ["shop/Basket-API", "shop/cart"]}))
    collected(tmp_path, built, services=("checkout", "cart"))
    selectors = {
        query.partition("}")[0] + "}" for query in queries(server) if query.startswith("{")
    }
    assert selectors == {'{job="shop/Basket-API"}', '{job="shop/cart"}'}


def test_only_the_alert_s_place_is_asked_and_elsewhere_who_has_nothing_there(
    server: LocalServer, tmp_path: Path
) -> None:
    loki = connector(server)
    there = ["service_name", "cluster", "deployment_environment"]
    server.on("/loki/api/v1/labels", Reply({"status": "success", "data": there}))

    def names(asked: Asked) -> Reply:
        bound = asked.query.get("query", [""])[0]
        assert bound in ("", '{deployment_environment="prod",cluster="eu"}')
        data = ["checkout"] if bound else ["checkout", "ledger"]
        return Reply({"status": "success", "data": data})

    server.on("/loki/api/v1/label/service_name/values", names)
    alert = Alert(
        source="test",
        title="errors",
        started_at=ALERT_AT,
        service="checkout",
        labels={"env": "prod", "cluster": "eu", "zone": "a"},
    )
    request = request_for(tmp_path, services=("checkout", "ledger"), alert=alert)
    asyncio.run(loki.collect(request))
    selectors = {query[query.index("{") : query.index("}") + 1] for query in queries(server)}
    here = '{service_name="checkout",deployment_environment="prod",cluster="eu"}'
    assert selectors == {here, '{service_name="ledger"}'}


def test_the_alerts_namespace_comes_first_then_the_rest_of_its_place(
    server: LocalServer, tmp_path: Path
) -> None:
    loki = connector(server)
    there = ["service_name", "cluster", "namespace"]
    server.on("/loki/api/v1/labels", Reply({"status": "success", "data": there}))
    by_bound = {
        '{cluster="eu",namespace="prod"}': ["checkout"],
        '{cluster="eu"}': ["checkout", "orders-db"],
        "": ["checkout", "orders-db", "ledger"],
    }

    def names(asked: Asked) -> Reply:
        return Reply({"status": "success", "data": by_bound[asked.query.get("query", [""])[0]]})

    server.on("/loki/api/v1/label/service_name/values", names)
    labels = {"cluster": "eu", "namespace": "prod"}
    alert = Alert(
        source="test", title="errors", started_at=ALERT_AT, service="checkout", labels=labels
    )
    services = ("checkout", "orders-db", "ledger")
    asyncio.run(loki.collect(request_for(tmp_path, services=services, alert=alert)))
    selectors = {query[query.index("{") : query.index("}") + 1] for query in queries(server)}
    assert selectors == {
        '{service_name="checkout",cluster="eu",namespace="prod"}',
        '{service_name="orders-db",cluster="eu"}',
        '{service_name="ledger"}',
    }


def test_a_hostile_label_value_stays_inside_its_quotes(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    evil = 'checkout"} |= `x` or {a="\\'
    server.on("/loki/api/v1/label/service_name/values", Reply({"data": [evil, evil.upper()]}))
    alert = Alert(source="x", title="t", started_at=ALERT_AT, service=evil)
    collected(tmp_path, built, services=(), alert=alert)
    selector = r'\{service_name=~"(?:[^"\\]|\\.)*"\}'
    tails = {
        re.sub(selector, "SELECTOR", query, count=1).partition("SELECTOR")[2][:8]
        for query in queries(server)
    }
    assert tails == {"[60s]))", ' |~ "(?i', ""}


def test_a_service_that_no_label_names_is_a_gap_that_says_what_to_do(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "nobody"))
    (gap,) = found.missing
    assert gap.query == "nobody"
    assert "loki.service_labels" in gap.reason


def refusals() -> list[tuple[Reply, str]]:
    """What vendors answer when they do not answer."""
    return [
        (Reply(b"no org id", 401), "authentication failed (HTTP 401)"),
        (Reply(b"", 403), "not permitted with these credentials (HTTP 403)"),
        (Reply(b"", 404), "not found (HTTP 404)"),
        (Reply(b"", 429, {"Retry-After": "3600"}), "the rate limit is used up (HTTP 429)"),
        (Reply(b"", 500), "refused (HTTP 500)"),
        (Reply(b'{"data": {"resu'), "unexpected response"),
        (Reply({"data": {"result": [{"stream": 3}]}}), "unexpected response"),
    ]


@pytest.mark.parametrize(("reply", "reason"), refusals())
def test_what_loki_refuses_becomes_a_gap_for_each_query(
    server: LocalServer, tmp_path: Path, reply: Reply, reason: str
) -> None:
    built = connector(server)
    server.on(RANGE, reply)
    found = collected(tmp_path, built)
    reasons = [gap.reason for gap in found.missing]
    assert any(reason in said for said in reasons)
    assert all(reason in said or "requests failed" in said for said in reasons)


def test_one_query_that_is_refused_leaves_the_others(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    refuse: Callable[[Asked], Reply] = lambda asked: (  # noqa: E731
        Reply(b"max series", 400)
        if "count_over_time" in asked.query["query"][0]
        else stand_in.answer(asked)
    )
    server.on(RANGE, refuse)
    found = collected(tmp_path, built)
    assert found.tables["logs"].height
    assert {gap.kind for gap in found.missing} == {"metrics"}


def test_lines_with_unreadable_times_are_counted(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    at = str(round(ONSET.timestamp()) * 10**9)
    answer = streams([at, "good"], ["soon", "bad"], ["9" * 30, "bad"], [at], [at, {"no": "text"}])
    server.on(
        RANGE, lambda a: stand_in.answer(a) if "count" in a.query["query"][0] else Reply(answer)
    )
    found = collected(tmp_path, built)
    assert found.tables["logs"]["message"].to_list() == ["good"]
    assert {i.cut for i in found.items if i.kind == "logs"} == {
        "4 lines without a readable time or text left out"
    }


def test_check_names_the_labels_that_are_missing(server: LocalServer) -> None:
    built = connector(server)
    assert asyncio.run(built.check()).line.startswith(
        f"Loki 3.5.1 at {server.url}: 3 labels can be read"
    )
    server.on("/loki/api/v1/labels", Reply({"data": ["pod"]}))
    said = asyncio.run(built.check())
    assert not said.ok
    assert "set loki.service_labels" in said.line


def test_a_label_that_is_none_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"loki\.service_labels"):
        LokiConnector("http://127.0.0.1:9", service_labels=('x="', "app"))


def test_the_errors_of_the_log_are_diagnosed(server: LocalServer, tmp_path: Path) -> None:
    found = diagnosed(tmp_path, connector(server))
    assert found.verdict == "cause_found"
    # The lines name cart, of which nothing else is known; checkout is the one that writes them.
    assert [cause.subject for cause in found.causes[:2]] == ["cart", "checkout"]
    assert any("connection refused by cart" in f.sentence for f in found.findings)
    assert any(f.signal == ERROR_LINES and f.subject == "checkout" for f in found.findings)


JSON = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=30)
)
VALUES = st.lists(
    st.lists(JSON | st.dictionaries(st.sampled_from(["structuredMetadata", "x"]), JSON), max_size=4)
)


@given(VALUES, st.dictionaries(st.sampled_from(["level", "trace_id", "a"]), st.text(max_size=30)))
@example([[1, "a line of 1970"]], {})
def test_any_values_of_a_line_are_left_out_or_rows(
    values: list[list[Any]], labels: dict[str, str]
) -> None:
    rows, dropped = line_rows([LokiStream(labels, values)], "checkout")
    collection = CollectionBuilder()
    collection.add("logs", rows)
    conform(collection.collected().tables["logs"], "logs", "logs")
    assert len(rows) + dropped == len(values)


@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=30)),
        max_size=5,
    )
)
def test_any_counts_are_taken_or_left_out(values: list[tuple[float, str]]) -> None:
    grid = CountGrid.of(Window(start=ONSET, end=ALERT_AT))
    rows = count_rows([Counted({"level": "error"}, values)], "checkout", grid, (LINES, ERROR_LINES))
    assert len(rows) == 20
    assert all(row[3] >= 0 for row in rows)
