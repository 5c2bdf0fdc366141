"""The VictoriaLogs connector over real HTTP: what it asks, how it cuts, and how it handles refusals
and hostile answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES, CountGrid
from faultline.connectors.vendors.victorialogs import CONNECTOR
from faultline.connectors.vendors.victorialogs.answers import HitsSeries, count_rows, line_page
from faultline.connectors.vendors.victorialogs.connector import ERRORS, VictoriaLogsConnector
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import victorialogs as stand_in
from tests.connectors.stand_ins.loki import TRACE_ID

HOSTILE = 'a"b) or (* | delete\\'


def connector(server: LocalServer, *, more: Any = None, **own: Any) -> VictoriaLogsConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url) | (more or {})
    values["victorialogs"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, VictoriaLogsConnector)
    return built


def queries(server: LocalServer, path: str = stand_in.QUERY) -> list[str]:
    """What was asked."""
    return [a.query["query"][0] for a in server.asked if a.path == path]


def test_errors_a_sample_and_counts_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    logs = conform(found.tables["logs"], "logs", "logs")
    errors = logs.filter(pl.col("level") == "error")
    assert errors.height == 60
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [TRACE_ID]
    kept = json.loads(errors["attributes"][0])
    assert kept["host.name"] == "node-7"
    assert not {"_stream", "_stream_id", "service.name", "severity_text"} & set(kept)
    assert logs.filter(pl.col("level") == "info", pl.col("time") < ONSET).height > 300
    metrics = conform(found.tables["metrics"], "metrics", "metrics")
    per_minute = metrics.filter(pl.col("signal") == ERROR_LINES).sort("time")
    assert per_minute.height == 150
    assert per_minute.filter(pl.col("time") < ONSET)["value"].sum() == 0
    assert per_minute.filter(pl.col("time") > ONSET)["value"].median() == 6
    assert metrics.filter(pl.col("signal") == LINES)["value"].median() == 6


def test_the_new_errors_are_found(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    assert any("could not reserve stock" in str(one.details) for one in findings)


def test_every_item_links_to_the_page_at_its_query_window_and_tenant(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, public_url="https://logs.example.com/vl/")
    for item in collected(tmp_path, built).items:
        assert item.link is not None
        assert item.window is not None
        base, _, asked = item.link.partition("/select/vmui/?#/?")
        assert base == "https://logs.example.com/vl"
        said = parse_qs(asked)
        assert said["query"] == [item.query.removeprefix("count of ")]
        assert said["g0.end_input"] == [f"{item.window.end:%Y-%m-%dT%H:%M:%S}"]
        assert said["g0.range_input"] == [f"{round(item.window.seconds)}s"]
        assert (said["accountID"], said["projectID"]) == (["12"], ["34"])


def test_the_tenant_and_the_credentials_are_sent(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server))
    sent = server.asked[0].headers
    assert (sent["Accountid"], sent["Projectid"]) == ("12", "34")
    assert sent["Authorization"] == "Bearer t"
    collected(tmp_path, connector(server, account_id=None, project_id=None, username="bot"))
    sent = server.asked[-1].headers
    assert "Accountid" not in sent
    assert sent["Authorization"] == "Basic Ym90OnQ="
    with pytest.raises(pydantic.ValidationError):
        connector(server, account_id=2**32)


def test_where_a_window_holds_more_lines_the_rest_is_asked_in_thirds(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)

    def many(asked: Asked) -> Reply:
        count = int(asked.query["query"][0].rpartition(" ")[2])
        first = asked.query["start"][0].removesuffix("Z")[:19]
        made = [{"_time": f"{first}.{n:09}Z", "_msg": f"line {n}"} for n in range(count)]
        return Reply("\n".join(map(json.dumps, made)).encode())

    server.on(stand_in.QUERY, many)
    found = collected(tmp_path, built)
    cut = (
        f"the first {ERRORS} lines of the window, and the first "
        f"{ERRORS // 3} of each third of the rest"
    )
    assert [i.cut for i in found.items if i.kind == "logs" and (i.rows or 0) > 1000] == [cut, cut]
    assert sum(one.endswith(f" limit {ERRORS // 3}") for one in queries(server)) == 6


def test_only_lines_of_the_alerts_place_are_read(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)

    def alert(cluster: str) -> Alert:
        labels = {"cluster": cluster}
        return Alert(
            source="test", title="t", started_at=ALERT_AT, service="checkout", labels=labels
        )

    for item in collected(tmp_path, built, alert=alert("prod-eu")).items:
        assert '"k8s.cluster.name":="prod-eu"' in item.query
    elsewhere = collected(tmp_path, built, alert=alert("prod-us"))
    assert elsewhere.items
    assert not any("k8s.cluster.name" in item.query for item in elsewhere.items)


def test_the_alerts_namespace_is_one_more_bound(server: LocalServer, tmp_path: Path) -> None:
    labels = {"namespace": "shop"}
    alert = Alert(source="test", title="t", started_at=ALERT_AT, service="checkout", labels=labels)
    items = collected(tmp_path, connector(server), alert=alert).items
    assert items
    sent = [query for query in queries(server) if "namespace" in query]
    assert any('"k8s.namespace.name":="shop"' in query for query in sent)


def test_names_of_services_and_places_cannot_change_the_query(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    labels = {"cluster": HOSTILE}
    alert = Alert(source="test", title="t", started_at=ALERT_AT, service=HOSTILE, labels=labels)
    found = collected(tmp_path, built, services=(HOSTILE,), alert=alert)
    assert [(one.query, one.unknown) for one in found.missing] == [(HOSTILE, True)]
    assert found.items == ()
    assert len(queries(server, stand_in.VALUES)) == 2, "in the place, and anywhere"


def test_an_alias_counts_in_any_case(server: LocalServer, tmp_path: Path) -> None:
    more = {"services": {"shop": {"aliases": ["CHECKOUT"]}}}
    found = collected(tmp_path, connector(server, more=more), services=("shop",))
    assert "shop" in set(found.tables["logs"]["service"])
    window = Window(start=ONSET, end=ALERT_AT)
    assert asyncio.run(connector(server, more=more).services_in(window)) == ("shop",)


def test_without_levels_errors_are_lines_with_words_and_are_not_counted(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server, level_fields=["lvl"]))
    assert found.tables["metrics"]["signal"].unique().to_list() == [LINES]
    assert any('_msg:~"(?i)(error|exception' in one for one in queries(server))
    assert found.tables["logs"]["level"].null_count() == found.tables["logs"].height


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "authentication failed"), (403, "not permitted"), (429, "rate limit"), (503, "not")],
)
def test_a_refusal_is_a_gap(server: LocalServer, tmp_path: Path, status: int, reason: str) -> None:
    built = connector(server, deadline_s=2)
    for path in (stand_in.QUERY, stand_in.HITS):
        server.on(path, Reply(b"secret words", status=status))
    found = collected(tmp_path, built)
    assert found.items == ()
    assert any(reason in one.reason for one in found.missing)
    assert not any("secret words" in one.reason for one in found.missing)


@pytest.mark.parametrize("body", [b'{"_msg":"a"', b"cannot read: disk", b"[1]\n", b'"\xff"\n'])
def test_an_answer_that_breaks_off_is_a_gap_and_counts_stand(
    server: LocalServer, tmp_path: Path, body: bytes
) -> None:
    built = connector(server)
    server.on(stand_in.QUERY, Reply(body))
    found = collected(tmp_path, built)
    assert {i.kind for i in found.items} == {"metrics"}
    assert all("unexpected response" in one.reason for one in found.missing)


def test_hostile_lines_are_rows_or_left_out() -> None:
    wide = {"_time": "2026-03-02T12:00:00.123456789Z", "_msg": "x" * 100_000}
    wide |= {f"f{n}": "v" * 5000 for n in range(5000)}
    bad = [{"_time": "soon", "_msg": "a"}, {"_time": wide["_time"]}, {}]
    page = line_page("\n".join(map(json.dumps, [wide, *bad])).encode(), (), ("level",))
    assert page.left_out == 3
    ((at, _, text, level, trace, kept),) = page.rows
    assert at == round(ALERT_AT.timestamp()) * 10**9 + 123_456_000
    assert (len(text), level, trace) == (8000, None, None)
    assert len(kept) < 50_000


def test_counts_outside_the_grid_or_without_a_time_are_left_out() -> None:
    grid = CountGrid(1_772_452_800, 60, 2)
    times = ["2026-03-02T11:59:00Z", "2026-03-02T12:01:00Z", "2026-03-02T12:02:00Z", "never"]
    hits = [HitsSeries(times, [7, 3, 5, 9], {"level": "CRITICAL"}), HitsSeries(times, [1, 2], {})]
    rows = count_rows(hits, "cart", grid, ("level",))
    assert [(row[2], row[3]) for row in rows] == [
        (LINES, 0.0),
        (LINES, 2.0),
        (ERROR_LINES, 0.0),
        (ERROR_LINES, 3.0),
    ]


def test_check_names_the_fields(server: LocalServer) -> None:
    built = connector(server)
    said = asyncio.run(built.check())
    assert said.ok
    assert "no line in the last hour" in said.line
    server.on(stand_in.FIELDS, Reply({"values": [{"value": "app", "hits": 9}]}))
    said = asyncio.run(built.check())
    assert said.ok
    assert "services in app, level in none of them" in said.line
    server.on(stand_in.FIELDS, Reply({"values": [{"value": "host", "hits": 9}]}))
    said = asyncio.run(built.check())
    assert not said.ok
    assert "set victorialogs.service_fields" in said.line
    server.on(stand_in.FIELDS, Reply(b"no", status=403))
    said = asyncio.run(built.check())
    assert not said.ok
    assert "not permitted" in said.line
