"""The generic HTTP source over real HTTP: what it asks, the rows of each table, and what hostile
names and answers can do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.vendors.http_source import CONNECTOR
from faultline.connectors.vendors.http_source.connector import (
    LIMITS,
    HttpSourceConnector,
    SourceHttp,
)
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import http_source as stand_in


def connector(server: LocalServer, **own: Any) -> HttpSourceConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["http_source"] |= own
    values["services"] = {"checkout": {"aliases": ["checkout-api"]}}
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, HttpSourceConnector)
    return built


def of_table(
    server: LocalServer, folder: Path, table: str, columns: dict[str, str], body: Any, **own: Any
) -> list[dict[str, Any]]:
    """The rows that an answer becomes."""
    own = {"items": None, "columns": columns, "table": table, "params": {}, **own}
    built = connector(server, **own)
    server.on(stand_in.PATH, Reply(body))
    found = collected(folder, built)
    assert found.missing == ()
    return list(conform(found.tables[table], table, table).iter_rows(named=True))


def test_entries_become_changes(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    (row,) = conform(found.tables["changes"], "changes", "changes").iter_rows(named=True)
    assert (row["time"], row["service"], row["kind"]) == (stand_in.AT, "checkout", "flag")
    assert (row["id"], row["title"], row["author"]) == ("8", "switch new-cart 50 %", "dana")
    assert row["link"] == "https://rollouts.example.com/r/8"
    (item,) = found.items
    assert item.changes == ("8",)
    assert item.link is not None
    assert item.link.startswith("https://rollouts.example.com/checkout?at=17")
    assert item.query.startswith("GET /api/rollouts?service=checkout&from=17")


def test_the_request_is_that_of_the_settings(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server))
    (asked,) = server.asked
    assert asked.method == "GET"
    assert asked.headers["X-Api-Key"] == "rollouts-7f31"
    assert "Authorization" not in asked.headers
    assert asked.query["service"] == ["checkout"]
    assert asked.query["to"] == [f"{ALERT_AT:%Y-%m-%dT%H:%M:%SZ}"]


def test_a_mapped_change_is_weighed_like_any_other(server: LocalServer, tmp_path: Path) -> None:
    kinds = {one.kind for one in diagnosed(tmp_path, connector(server)).findings}
    assert "change_near" in kinds or "change_ruled_out" in kinds


def test_metrics_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    columns = {
        "time": "t",
        "service": "app",
        "signal": "'queue_depth'",
        "value": "depth",
        "labels": "{queue: q}",
    }
    entry = {"t": ONSET.isoformat(), "app": "checkout-api", "depth": "41.5", "q": "orders"}
    params = {"from": "{start}"}
    (row,) = of_table(server, tmp_path, "metrics", columns, [entry], params=params)
    assert (row["service"], row["signal"], row["value"]) == ("checkout", "queue_depth", 41.5)
    assert json.loads(row["labels"]) == {"queue": "orders"}
    assert len({asked.query["from"][0] for asked in server.asked}) == 2


def test_logs_and_states(server: LocalServer, tmp_path: Path) -> None:
    columns = {"time": "ts", "message": "msg", "level": "lvl", "service": "'cart'"}
    entry = {"ts": str(ONSET.timestamp()), "msg": "no\x00 stock\n", "lvl": "error"}
    (line,) = of_table(server, tmp_path, "logs", columns, [entry])
    assert (line["service"], line["message"], line["level"]) == ("cart", "no stock", "error")
    columns = {"kind": "'Queue'", "name": "n", "fact": "'consumers_behind'", "service": "owner"}
    entry = {"n": "orders", "owner": "checkout"}
    (state,) = of_table(server, tmp_path / "states", "states", columns, [entry])
    assert (state["fact"], state["service"]) == ("consumers_behind", "checkout")
    assert state["query"] == f"GET {stand_in.PATH}"


def test_entries_without_what_a_table_needs_are_counted(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    rollouts = [stand_in.rollout(), stand_in.rollout(at="soon"), stand_in.rollout(at=None)]
    server.on(stand_in.PATH, Reply({"data": {"rollouts": rollouts}}))
    (item,) = collected(tmp_path, built).items
    assert item.rows == 1
    assert item.cut == "2 entries without a usable value in a needed column left out"


def test_a_link_that_is_none_is_left_out(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    hostile = stand_in.rollout(url="javascript:alert(1)", name="x" * 9000)
    server.on(stand_in.PATH, Reply({"data": {"rollouts": [hostile]}}))
    found = collected(tmp_path, built)
    assert found.tables["changes"]["link"].to_list() == [None]
    assert len(found.tables["changes"]["title"][0]) == 500


SEARCH = {"path": "/search", "params": {}, "body": {"q": "app:{service}", "size": 5}}


def test_a_search_is_sent_by_post_only_where_the_settings_say_so(
    server: LocalServer, tmp_path: Path
) -> None:
    with pytest.raises(pydantic.ValidationError, match="is_search"):
        connector(server, **SEARCH)
    built = connector(server, **SEARCH, is_search=True)
    server.on("/search", Reply({"data": {"rollouts": [stand_in.rollout()]}}))
    quoted = Alert(source="t", title="t", started_at=ALERT_AT, service='x", "size": 9')
    found = collected(tmp_path, built, alert=quoted, services=())
    assert [json.loads(asked.body) for asked in server.asked] == [
        {"q": 'app:x", "size": 9', "size": 5}
    ]
    assert found.items[0].rows == 1


def test_no_other_post_can_be_sent(server: LocalServer) -> None:
    async def send(method: str, body: bytes) -> None:
        http = SourceHttp("http_source", server.url, limits=LIMITS)
        http.searches = frozenset({b"{}"})
        async with http.open() as session:
            await session._client.request(method, server.url + "/", content=body)

    for method, body in (("POST", b'{"x": 1}'), ("PUT", b"{}"), ("DELETE", b"{}")):
        with pytest.raises(ConnectorError, match="GET only"):
            asyncio.run(send(method, body))
    assert server.asked == []


@pytest.mark.parametrize("service", ["..", ".", "a/../../admin", "x?y#z", "%2e%2e", "{end}"])
def test_a_hostile_name_leads_to_no_other_path(
    server: LocalServer, tmp_path: Path, service: str
) -> None:
    built = connector(server, path="/api/{service}/rollouts", params={})
    alert = Alert(source="t", title="t", started_at=ALERT_AT, service=service)
    collected(tmp_path, built, alert=alert, services=())
    for asked in server.asked:
        assert asked.path.startswith("/api/")
        assert asked.path.endswith("/rollouts")
        assert asked.path.count("/") == 3
        assert httpx.URL(asked.path).path.count("..") == 0 or service != ".."


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply({"error": "no"}, status=403), "not permitted"),
        (Reply(b"", status=302, headers={"Location": "http://169.254.169.254/"}), "redirect"),
        (Reply(b"<html>"), "the answer is not JSON"),
        (Reply({"data": {"rollouts": 7}}), "items (data.rollouts) is not a list"),
        (Reply(b"[" * 40 + b"]" * 40), "nested deeper than 32"),
        (Reply({"data": {"rollouts": [{"name": {}}]}}), "columns.title"),
    ],
)
def test_refusals_and_bad_answers_are_gaps(
    server: LocalServer, tmp_path: Path, reply: Reply, reason: str
) -> None:
    built = connector(server, deadline_s=3)
    server.on(stand_in.PATH, reply)
    found = collected(tmp_path, built)
    assert found.items == ()
    assert reason in found.missing[0].reason


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"path": "/{host}"}, "is no placeholder"),
        ({"params": {"a": "{}"}}, "is no placeholder"),
        ({"columns": {"time": "a[", "kind": "b", "title": "c"}}, "is no JMESPath"),
        ({"columns": {"time": "a"}}, "columns.kind must be set for changes"),
        ({"columns": {"cost": "a"}}, "columns.cost"),
        ({"path": "//evil.example/x"}, "path"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(
    server: LocalServer, own: dict[str, Any], reason: str
) -> None:
    with pytest.raises(pydantic.ValidationError, match=reason.replace("[", r"\[")):
        connector(server, **own)


def test_check_says_how_much_can_be_read(server: LocalServer) -> None:
    said = asyncio.run(connector(server).check())
    assert said.ok
    assert "1 rows of changes" in said.line
    assert "only GET is sent" in said.line
    server.on(stand_in.PATH, Reply({"data": {"rollouts": [stand_in.rollout(at=None)]}}))
    built = CONNECTOR.configured(Settings.model_validate(settings_of(server)))
    assert built is not None
    unusable = asyncio.run(built.check())
    assert not unusable.ok
    assert "needed column" in unusable.line


def settings_of(server: LocalServer) -> dict[str, Any]:
    """Those of the stand-in, with a catalogue."""
    return stand_in.settings(server.url) | {"services": {"checkout": {}}}
