"""The ClickHouse connector against ClickHouse's own engine behind its HTTP interface, with the
tables of OpenTelemetry's exporter and of SigNoz; and against answers that no server should give."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES, CountGrid
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.clickhouse import CONNECTOR, queries, rows
from faultline.connectors.vendors.clickhouse.connector import ClickHouseConnector
from faultline.connectors.vendors.clickhouse.layouts import (
    OTEL_LOGS,
    SIGNOZ_LOGS,
    Column,
    identifier,
    literal,
    tables_of,
)
from tests.connectors.clickhouse_server import PLACED, QUEUED, clickhouse_server
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import clickhouse as stand_in
from tests.connectors.stand_ins.loki import TRACE_ID

pytestmark = pytest.mark.timeout(300)
OTEL = {"database": "otel"}
SIGNOZ = {
    "logs_table": "distributed_logs_v2",
    "traces_table": "distributed_signoz_index_v3",
    "metrics_tables": ["distributed_samples_v4", "distributed_time_series_v4"],
}
WRITERS = pytest.mark.parametrize("tables", [OTEL, SIGNOZ], ids=["otel", "signoz"])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ClickHouse."""
    with clickhouse_server(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


def connector(url: str, more: Any = None, **own: Any) -> ClickHouseConnector:
    """As the settings build it."""
    values = stand_in.settings(url) | (more or {})
    values["clickhouse"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, ClickHouseConnector)
    return built


def alert_in(**labels: str) -> Alert:
    """An alert about checkout in a place."""
    return Alert(
        source="test",
        title="Checkout fails",
        started_at=ALERT_AT,
        service="checkout",
        labels=labels,
    )


def median(found: Collected, signal: str) -> tuple[Any, Any]:
    """The median of a signal before and from the onset on."""
    table = conform(found.tables["metrics"], "metrics", "metrics").filter(
        pl.col("signal") == signal
    )
    early, late = (table.filter(pl.col("time") < ONSET), table.filter(pl.col("time") >= ONSET))
    return early["value"].median(), late["value"].median()


@WRITERS
def test_the_signals_of_both_windows(url: str, tmp_path: Path, tables: Any) -> None:
    found = collected(tmp_path, connector(url, **tables))
    assert found.missing == ()
    assert median(found, "request_rate") == (1 / 60, 1 / 60)
    assert median(found, "error_ratio") == (0, 1)
    assert median(found, "latency_p99") == (90, 2090)
    assert median(found, ERROR_LINES) == (0, 6)
    assert median(found, LINES) == (6, 6)
    assert median(found, QUEUED) == (3, 900)
    units = dict(found.tables["metrics"].select("signal", "unit").unique().iter_rows())
    assert (units[QUEUED], units[PLACED], units["latency_p50"]) == (None, "1/s", "ms")


@WRITERS
def test_a_counter_grows_by_the_second_and_a_restart_is_no_loss(
    url: str, tmp_path: Path, tables: Any
) -> None:
    found = collected(tmp_path, connector(url, **tables))
    values = found.tables["metrics"].filter(pl.col("signal") == PLACED)["value"]
    assert values.median() == 1
    assert values.min() == 0  # the minute of the restart: what came before it is not known
    assert values.max() == 1


@WRITERS
def test_lines_and_spans(url: str, tmp_path: Path, tables: Any) -> None:
    found = collected(tmp_path, connector(url, **tables))
    lines = conform(found.tables["logs"], "logs", "logs")
    errors = lines.filter(pl.col("level") == "error")
    assert errors.height == 60
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [TRACE_ID]
    kept = json.loads(errors["attributes"][0])
    assert (kept["host.name"], kept["thread"]) == ("node-7", "main")
    assert lines.filter(pl.col("level") == "info", pl.col("time") < ONSET).height >= 300
    spans = conform(found.tables["spans"], "spans", "spans")
    roots = spans.filter(pl.col("parent_id").is_null())
    assert set(roots.filter(pl.col("start") >= ONSET)["status"]) == {"error"}
    assert set(roots.filter(pl.col("start") < ONSET)["status"]) == {"ok"}
    assert roots.filter(pl.col("start") < ONSET)["duration_us"].median() == 90_000
    said = json.loads(roots.filter(pl.col("start") >= ONSET)["attributes"][0])
    assert float(said["http.response.status_code"]) == 503
    assert (said["span.kind"], said["status.message"]) == ("server", "no stock")


@WRITERS
def test_the_new_errors_are_found(url: str, tmp_path: Path, tables: Any) -> None:
    findings = diagnosed(tmp_path, connector(url, **tables)).findings
    assert any("could not reserve stock" in str(one.details) for one in findings)
    assert any("latency" in str(one.series) and one.subject == "checkout" for one in findings)


def test_attributes_in_json_are_read_like_those_in_maps(url: str, tmp_path: Path) -> None:
    built = connector(url, database="as_json")
    found = collected(tmp_path, built, alert=alert_in(env="prod"))
    kept = json.loads(found.tables["logs"]["attributes"][0])
    assert (kept["host.name"], kept["thread"]) == ("node-7", "main")
    elsewhere = collected(tmp_path, built, alert=alert_in(env="staging"))
    assert elsewhere.items == ()


@WRITERS
def test_rows_of_another_place_are_left_out(url: str, tmp_path: Path, tables: Any) -> None:
    built = connector(url, **tables)
    here = collected(tmp_path, built, alert=alert_in(environment="prod", cluster="eu-1"))
    # They name no cluster at all.
    assert here.missing == ()
    assert {"request_rate", QUEUED} <= set(here.tables["metrics"]["signal"])
    elsewhere = collected(tmp_path, built, alert=alert_in(environment="staging"))
    assert elsewhere.items == ()
    (gap,) = elsewhere.missing
    assert gap.reason == "no line, span or metric of environment staging names it"
    assert gap.unknown


@WRITERS
def test_rows_of_another_namespace_are_left_out(url: str, tmp_path: Path, tables: Any) -> None:
    built = connector(url, **{**tables, "database": "two_namespaces"})
    both = collected(tmp_path, built)
    alone = collected(tmp_path, connector(url, **tables))
    here = collected(tmp_path, built, alert=alert_in(namespace="shop"))
    assert (both.missing, here.missing) == ((), ())
    for signal in (ERROR_LINES, LINES, "request_rate", PLACED):
        assert median(here, signal) == median(alone, signal)
        assert median(both, signal)[1] == 2 * median(alone, signal)[1]
    errors = here.tables["logs"].filter(pl.col("level") == "error")
    assert errors.height == 60
    spaces = [json.loads(text)["k8s.namespace.name"] for text in errors["attributes"]]
    assert set(spaces) == {"shop"}


@WRITERS
def test_a_service_that_runs_in_another_namespace_is_read_there(
    url: str, tmp_path: Path, tables: Any
) -> None:
    built = connector(url, **{**tables, "database": "two_namespaces"})
    elsewhere = collected(tmp_path, built, alert=alert_in(namespace="payments"))
    both = collected(tmp_path, built)
    for signal in (ERROR_LINES, "request_rate", PLACED):
        assert median(elsewhere, signal) == median(both, signal)
    # Rows that name no namespace may come from any.
    unnamed = collected(tmp_path, connector(url, **tables), alert=alert_in(namespace="shop"))
    assert unnamed.missing == ()
    assert {"logs", "spans", "metrics"} <= set(unnamed.tables)


def test_a_service_is_read_by_its_alias_and_an_unknown_one_is_a_gap(
    url: str, tmp_path: Path
) -> None:
    built = connector(url, {"services": {"shop": {"aliases": ["checkout"]}}}, **OTEL)
    alert = Alert(source="test", title="t", started_at=ALERT_AT, service="shop")
    found = collected(tmp_path, built, services=("shop", "ghost' OR 1=1 --"), alert=alert)
    assert set(found.tables["logs"]["service"]) == {"shop"}
    assert set(found.tables["spans"]["service"]) == {"shop"}
    assert set(found.tables["metrics"]["service"]) == {"shop"}
    (gap,) = found.missing
    assert (gap.query, gap.unknown) == ("ghost' OR 1=1 --", True)


def test_the_first_writer_that_is_found_is_read(url: str, tmp_path: Path) -> None:
    # as_json comes before otel, and SigNoz' tables after those of the exporter.
    check = asyncio.run(connector(url).check())
    assert "as_json.otel_logs (logs)" in check.line
    assert "otel.otel_traces (spans)" in check.line
    assert "signoz_metrics.distributed_time_series_v4" in check.line


def test_check_names_the_tables_and_warns_of_a_user_that_can_write(url: str) -> None:
    check = asyncio.run(connector(url, **OTEL).check())
    assert check.ok
    assert "ClickHouse 26.5.1.1" in check.line
    assert "otel.otel_metrics_sum (metrics)" in check.line
    # chDB's one user may do everything.
    assert "warning: the user can also write" in check.line


def test_a_user_that_may_not_set_limits_is_read_under_its_own(url: str, tmp_path: Path) -> None:
    built = connector(url, username="strict", **OTEL)
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert {"metrics", "logs", "spans"} == set(found.tables)
    assert "so its own limits hold" in asyncio.run(built.check()).line


def test_a_wrong_password_is_said_and_not_shown(url: str, tmp_path: Path) -> None:
    built = connector(url, token="hunter2-wrong")
    found = collected(tmp_path, built)
    assert found.items == ()
    assert {one.kind for one in found.missing} == {"metrics", "logs", "spans"}
    assert all("authentication failed" in one.reason for one in found.missing)
    assert "hunter2" not in str(found.missing)
    assert not asyncio.run(built.check()).ok


def test_without_a_table_that_is_known_check_says_what_to_set(url: str) -> None:
    check = asyncio.run(connector(url, database="system").check())
    assert not check.ok
    assert "clickhouse.database" in check.line


def test_a_query_that_takes_too_long_is_a_gap(url: str, tmp_path: Path) -> None:
    built = connector(url, query_timeout_s=1, **OTEL)
    slow = "SELECT sleepEachRow(1) FROM system.numbers LIMIT 30"

    async def ask() -> None:
        async with built._http.open() as session:
            await session.rows(f"{slow} SETTINGS max_block_size = 1", type=list[int])

    with pytest.raises(Exception, match=r"ran into its time limit .*TIMEOUT_EXCEEDED, code 159"):
        asyncio.run(ask())


def test_nothing_can_be_written_with_a_user_that_could(url: str) -> None:
    built = connector(url, **OTEL)

    async def ask(text: str) -> None:
        async with built._http.open() as session:
            await session.rows(text, type=list[Any])

    with pytest.raises(Exception, match="READONLY"):
        asyncio.run(ask("INSERT INTO otel.otel_logs SELECT * FROM otel.otel_logs"))


def test_links_open_the_query_in_the_servers_page(url: str, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(url, public_url="https://ch.example.com/", **OTEL))
    for item in found.items:
        assert item.link is not None
        base, _, packed = item.link.partition("#")
        assert base == "https://ch.example.com/play"
        assert base64.b64decode(packed).decode() == item.query
    assert {one.link for one in collected(tmp_path, connector(url, **OTEL)).items} == {None}


@pytest.mark.parametrize("text", ["a'b", "a\\", "a\\'; DROP TABLE x --", "é\n\0", "`a`"])
def test_names_stay_inside_their_quotation_marks(url: str, text: str) -> None:
    async def ask() -> list[list[str]]:
        async with connector(url)._http.open() as session:
            sql = f"SELECT {literal(text)} AS {identifier(text)}"
            return await session.rows(sql, type=list[str])

    printable = "".join(one if one.isprintable() else " " for one in text)
    assert asyncio.run(ask()) == [[printable]]


@pytest.mark.parametrize(
    ("status", "headers", "body", "reason"),
    [
        (403, {"X-ClickHouse-Exception-Code": "497"}, "Code: 497. DB::Exception: f: Not enough "
         "privileges, secret-text. (ACCESS_DENIED)", "needs SELECT on the table (ACCESS_DENIED"),
        (500, {}, "Code: 241. DB::Exception: Memory limit secret-text exceeded",
         "needs more memory than the user may use (code 241)"),
        (500, {}, "<html>secret-text</html>", "refused"),
        (404, {"X-ClickHouse-Exception-Code": "60"}, "", "no such table (code 60)"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_gap_in_our_words(
    server: LocalServer, tmp_path: Path, status: int, headers: Any, body: str, reason: str
) -> None:
    server.on("/", Reply(body.encode(), status=status, headers=headers))
    found = collected(tmp_path, connector(server.url))
    assert found.items == ()
    assert reason in found.missing[0].reason
    assert "secret-text" not in str(found.missing)


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"data": 1}', b'{"data": [[1]]}', b'{"data": [["a"', b""]
)
def test_nonsense_makes_gaps_and_no_failure(
    server: LocalServer, tmp_path: Path, body: bytes
) -> None:
    server.on("/", Reply(body))
    found = collected(tmp_path, connector(server.url))
    assert found.items == ()
    assert found.missing
    assert not any("internal error" in one.reason for one in found.missing)


def test_every_request_is_a_get_with_its_limits(server: LocalServer, tmp_path: Path) -> None:
    server.on("/", Reply({"data": []}))
    collected(tmp_path, connector(server.url, query_timeout_s=7))
    assert server.methods == {"GET"}
    for asked in server.asked:
        assert asked.query["readonly"] == ["2"]
        assert asked.query["max_execution_time"] == ["7"]
        assert asked.query["max_result_rows"] == ["100000"]


def test_rows_that_no_table_should_hold_are_left_out() -> None:
    whole = ["1772452800000000000", "said", "info", TRACE_ID, {"a": {"b": 1}}, {"c": [1]}]
    broken: list[list[Any]] = [[], ["x"], [1, "t"], [None] * 6, [*whole[:1], {}, *whole[2:]]]
    page = rows.line_page([whole, *broken], "checkout")
    assert [row[2] for row in page.rows] == ["said"]
    assert page.left_out == 5
    span = [whole[0], TRACE_ID, "checkout", 5, 0, {}, "00f067aa0ba902b7", "", "GET", "Server", ""]
    bad = [[], span, [*span[:3], -1, *span[4:], {}], [*span[:6], "zz", *span[7:], {}]]
    found, dropped = rows.span_rows([[*span, {}], *bad], ServiceNames())
    assert (len(found), dropped) == (1, 4)
    grid = CountGrid(0, 60, 2)
    outside = [rows.Golden("a", 9, 1, 0, [1, 1]), rows.Golden("", 0, 1, 0, []),
               rows.Golden("a", 0, 0, 0, [])]  # fmt: skip
    assert rows.golden_rows(outside, ServiceNames(), grid) == []
    points = [rows.Point("a", "m", "By", "gauge", 5, 1), rows.Point("a", "", "", "gauge", 0, 1),
              rows.Point("a", "m", "", "gauge", 0, None)]  # fmt: skip
    assert rows.metric_rows(points, ServiceNames(), grid) == []


def test_lines_without_any_level_say_nothing_of_errors() -> None:
    grid = CountGrid(0, 60, 2)
    found = rows.count_rows([rows.LineCount(0, "", 5)], "a", grid)
    assert {row[2] for row in found} == {LINES}
    assert rows.count_rows([], "a", grid) == []


def test_a_table_is_known_by_its_columns_and_not_by_its_name() -> None:
    def of(layout: Any, name: str) -> list[Column]:
        return [Column("db", name, column, "String") for column in layout.needs]

    tables = tables_of([*of(SIGNOZ_LOGS, "lines"), *of(OTEL_LOGS, "more")], {"logs": ("lines",)})
    assert tables.logs is not None
    assert tables.logs[1] is SIGNOZ_LOGS
    other = [Column("db", "otel_logs", "Timestamp", "DateTime")]
    assert tables_of(other, {"logs": ("otel_logs",)}).by_part == {}


def test_the_window_of_a_row_is_half_open() -> None:
    said = queries.during(OTEL_LOGS, 1_000_000_000, 2_500_000_000)
    assert said.startswith("Timestamp >= fromUnixTimestamp64Nano(1000000000)")
    assert "Timestamp < fromUnixTimestamp64Nano(2500000000)" in said
    bucketed = queries.during(SIGNOZ_LOGS, 1_000_000_000, 2_500_000_000)
    assert bucketed.startswith("ts_bucket_start >= 1 - 1800 AND ts_bucket_start <= 3 AND ")


def test_settings_that_cannot_be_a_table_are_refused() -> None:
    with pytest.raises(pydantic.ValidationError):
        Settings.model_validate({"clickhouse": {"logs_table": "a; DROP TABLE b"}})
