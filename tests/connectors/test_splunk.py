"""The Splunk connector against a local server that answers oneshot searches as documented."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES, CountGrid
from faultline.connectors.vendors.splunk import CONNECTOR, SplunkSettings, rows, searches
from faultline.connectors.vendors.splunk.connector import (
    ERRORS,
    LIMITS,
    MOST_SERVICES,
    SAMPLE,
    SplunkConnector,
)
from faultline.connectors.vendors.splunk.session import JOBS, SplunkHttp
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import splunk as stand_in


def connector(server: LocalServer, **own: Any) -> SplunkConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["splunk"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, SplunkConnector)
    return built


def asked_searches(server: LocalServer) -> list[str]:
    """The searches that were sent."""
    return [parse_qs(a.body.decode())["search"][0] for a in server.asked if a.path == JOBS]


def test_errors_a_sample_and_counts_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    logs = conform(found.tables["logs"], "logs", "logs")
    errors = logs.filter(pl.col("level") == "error")
    assert errors.height == 60
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [stand_in.TRACE_ID]
    kept = json.loads(errors["attributes"][0])
    assert kept["host"] == "node-7"
    assert not any(name.startswith("_") for name in kept)
    assert logs.filter(pl.col("level") == "info", pl.col("time") < ONSET).height > 300
    metrics = conform(found.tables["metrics"], "metrics", "metrics")
    per_minute = metrics.filter(pl.col("signal") == ERROR_LINES).sort("time")
    assert per_minute.filter(pl.col("time") < ONSET)["value"].sum() == 0
    assert per_minute.filter(pl.col("time") > ONSET)["value"].median() == 6
    assert metrics.filter(pl.col("signal") == LINES)["value"].median() == 6


def test_the_new_errors_are_found(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    assert any("could not reserve stock" in str(one.details) for one in findings)


def test_every_item_links_to_splunk_web_at_its_search(server: LocalServer, tmp_path: Path) -> None:
    for item in collected(tmp_path, connector(server)).items:
        assert item.link is not None
        assert item.window is not None
        assert item.link.startswith("https://splunk.example.com/en-US/app/search/search?")
        query = parse_qs(urlsplit(item.link).query)
        assert query["q"] == [item.query]
        assert float(query["earliest"][0]) == item.window.start.timestamp()


def test_the_token_is_sent_and_names_are_literals(server: LocalServer, tmp_path: Path) -> None:
    hostile = 'x") OR index=* | delete'
    collected(tmp_path, connector(server), services=("checkout", hostile))
    assert {one.headers["Authorization"] for one in server.asked} == {f"Bearer {stand_in.TOKEN}"}
    sent = [one for one in asked_searches(server) if "delete" in one]
    assert sent
    assert all(searches.is_reading(one) for one in sent)
    assert all("(index=app OR index=k8s_*)" in one for one in sent)


@pytest.mark.parametrize(
    "search",
    [
        "search index=a | delete",
        "search index=a | collect index=b",
        "search index=a | outputlookup x.csv",
        "| makeresults",
        "search index=a [search index=b | sendemail to=x]",
        "search `macro`",
        'search "open | delete',
        "search index=a ||head 1",
        "",
    ],
)
def test_a_search_that_does_more_than_read_is_not_sent(server: LocalServer, search: str) -> None:
    assert not searches.is_reading(search)
    form = {"exec_mode": "oneshot", "search": search}
    with pytest.raises(ConnectorError, match="searches only"):
        send(server, "POST", JOBS, form)
    assert server.asked == []


@pytest.mark.parametrize(
    ("method", "path", "form"),
    [
        ("POST", "/services/saved/searches", {"search": "search a"}),
        ("POST", JOBS, {"search": "search a", "exec_mode": "normal"}),
        ("POST", JOBS, {"search": "search a", "exec_mode": "oneshot", "id": "x"}),
        ("DELETE", JOBS, {}),
    ],
)
def test_nothing_but_searches_can_be_sent(
    server: LocalServer, method: str, path: str, form: dict[str, str]
) -> None:
    with pytest.raises(ConnectorError, match="searches only"):
        send(server, method, path, form)
    assert server.asked == []


def send(server: LocalServer, method: str, path: str, form: dict[str, str]) -> None:
    """Try to send a request past the connector."""

    async def now() -> None:
        http = SplunkHttp("splunk", server.url, limits=LIMITS)
        async with http.open() as session:
            await session._client.request(method, server.url + path, data=form)

    asyncio.run(now())


def test_a_pipe_within_a_string_is_no_command() -> None:
    text = r'search service="a \" | delete" | sort 5 _time'
    assert list(searches.commands_of(text)) == ["search", "sort"]
    assert searches.is_reading(text)


def test_without_levels_errors_are_lines_with_words_and_are_not_counted(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)

    def without(asked: Asked) -> Reply:
        said = json.loads(stand_in.answer(asked).bytes)
        for one in said["results"]:
            one.pop("level", None)
            one.pop("faultline_level", None)
        return Reply(said)

    server.on(JOBS, without)
    found = collected(tmp_path, built)
    assert found.tables["metrics"]["signal"].unique().to_list() == [LINES]
    assert any("OR traceback OR" in one for one in asked_searches(server))


def test_a_search_that_ended_early_is_a_gap_and_its_counts_are_not_used(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)

    def partial(asked: Asked) -> Reply:
        said = json.loads(stand_in.answer(asked).bytes)
        said["messages"] = [{"type": "WARN", "text": "Search finalized: time limit reached"}]
        return Reply(said)

    server.on(JOBS, partial)
    found = collected(tmp_path, built)
    assert {one.reason for one in found.missing} == {"Search finalized: time limit reached"}
    assert found.tables["logs"].height
    assert "metrics" not in found.tables


def test_a_missing_lookup_costs_no_line(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)

    def warned(asked: Asked) -> Reply:
        said = json.loads(stand_in.answer(asked).bytes)
        said["messages"] = [{"type": "ERROR", "text": "Could not load lookup=LOOKUP-hosts"}]
        return Reply(said)

    server.on(JOBS, warned)
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert found.tables["metrics"].height
    assert "Could not load lookup" in asyncio.run(built.check()).line


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "authentication failed"), (403, "not permitted"), (400, "Unknown field"), (503, "not")],
)
def test_a_refusal_is_a_gap(server: LocalServer, tmp_path: Path, status: int, reason: str) -> None:
    built = connector(server, deadline_s=3)
    refusal = {"messages": [{"type": "FATAL", "text": "Unknown field"}]}
    server.on(JOBS, Reply(refusal, status=status))
    found = collected(tmp_path, built)
    assert found.items == ()
    assert any(reason in one.reason for one in found.missing)


def test_a_service_that_no_line_names_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "payments"))
    assert [(one.query, one.unknown) for one in found.missing] == [("payments", True)]


def test_check_names_the_version_and_the_indexes(server: LocalServer) -> None:
    built = connector(server)
    said = asyncio.run(built.check())
    assert said.ok
    assert "Splunk 9.4.1" in said.line
    assert "app, k8s_* can be searched" in said.line
    server.on(JOBS, stand_in.found([]))
    assert "hold no line of the last hour" in asyncio.run(built.check()).line
    server.on(JOBS, Reply(b"<html>"))
    assert not asyncio.run(built.check()).ok


def test_hostile_records_are_rows_or_left_out() -> None:
    at = "2026-03-02T11:50:00.000+00:00"
    bad: list[dict[str, Any]] = [
        {},
        {"_time": "soon", "_raw": "x"},
        {"_time": at, "_raw": {"no": "text"}},
        {"_time": at, "_raw": ["x" * 100_000, "y"], "level": ["ERROR", "INFO"], "f": 3},
    ]
    page = rows.line_page(bad, "a", ("level",))
    assert page.left_out == 3
    (row,) = page.rows
    assert len(row[2]) == 8000
    assert row[3] == "error"
    assert rows.count_rows([{"_time": at, "count": "-1"}, {}], "a", CountGrid(0, 60, 5)) == (
        [],
        False,
    )


@pytest.mark.parametrize("name", ["a | delete", 'a" OR x', "[search]", ""])
def test_indexes_and_fields_are_plain_names(server: LocalServer, name: str) -> None:
    for key in ("indexes", "service_fields", "level_fields"):
        with pytest.raises(pydantic.ValidationError):
            connector(server, **{key: [name]})


def test_the_page_names_fields_and_limits_as_they_are() -> None:
    page = " ".join((Path(__file__).parents[2] / "docs/connectors/splunk.md").read_text().split())
    usual = SplunkSettings()
    for name in (*usual.indexes, *usual.service_fields, *usual.level_fields, LINES, ERROR_LINES):
        assert f"`{name}`" in page, name
    pace = f"{LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once"
    limits = f"{LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds"
    assert f"At most {pace}, {limits}" in page
    assert f"up to {ERRORS:,} at once" in page
    assert f"up to {SAMPLE} at once" in page
    assert f"at most {MOST_SERVICES} services" in page
