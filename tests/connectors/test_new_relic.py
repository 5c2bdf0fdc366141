"""The New Relic connector against a local server that answers NRQL as NerdGraph does."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES, CountGrid
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.new_relic import CONNECTOR, queries, rows
from faultline.connectors.vendors.new_relic.connector import (
    API,
    ERRORS,
    LIMITS,
    MOST_SERVICES,
    MOST_TRACED,
    SAMPLE,
    NewRelicConnector,
)
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import new_relic as stand_in


def connector(server: LocalServer, **own: Any) -> NewRelicConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["new_relic"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, NewRelicConnector)
    return built


def asked_nrql(server: LocalServer) -> list[str]:
    """The queries that were sent."""
    return [json.loads(one.body)["variables"]["nrql"] for one in server.asked]


def test_golden_signals_and_counts_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = conform(found.tables["metrics"], "metrics", "metrics")
    early, late = (table.filter(pl.col("time") < ONSET), table.filter(pl.col("time") >= ONSET))

    def median(signal: str, of: pl.DataFrame) -> Any:
        return of.filter(pl.col("signal") == signal)["value"].median()

    assert median("request_rate", early) == 20
    assert (median("error_ratio", early), median("error_ratio", late)) == (0, 0.4)
    assert median("latency_p99", late) > 2000 > median("latency_p99", early)
    assert (median(ERROR_LINES, early), median(ERROR_LINES, late)) == (0, 6)
    assert median(LINES, late) == 6


def test_lines_spans_and_the_deployment_are_read(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    lines = conform(found.tables["logs"], "logs", "logs")
    failing = lines.filter(pl.col("level") == "error")
    assert failing["time"].min() >= ONSET  # type: ignore[operator]
    assert failing["trace_id"].unique().to_list() == [stand_in.TRACE_ID]
    assert json.loads(failing["attributes"][0])["hostname"] == "node-7"
    spans = conform(found.tables["spans"], "spans", "spans")
    roots = spans.filter(pl.col("parent_id").is_null())
    assert set(roots.filter(pl.col("start") >= ONSET)["status"]) == {"error"}
    assert set(roots.filter(pl.col("start") < ONSET)["status"]) == {"ok"}
    assert roots.filter(pl.col("start") < ONSET)["duration_us"].median() == 90_000
    (change,) = conform(found.tables["changes"], "changes", "changes").iter_rows(named=True)
    assert (change["id"], change["service"], change["kind"]) == ("d-42", "checkout", "deploy")
    assert change["title"] == "Deployed v42 (7f3c2d1a9b8e): Reserve stock in one call"
    assert change["author"] == "ada@example.com"


def test_the_deployment_is_found_near_the_onset(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    near = [one for one in findings if one.kind == "change_near"]
    assert any("d-42" in str(one.series) and one.subject == "checkout" for one in near)


def test_every_item_links_to_the_query_builder_of_the_region(
    server: LocalServer, tmp_path: Path
) -> None:
    for item in collected(tmp_path, connector(server)).items:
        assert item.link is not None
        base, _, packed = item.link.partition("?pane=")
        assert base == "https://one.eu.newrelic.com/launcher/data-exploration.query-builder"
        state = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
        assert state["initialNrqlValue"] == item.query
        assert state["initialAccountId"] == stand_in.ACCOUNT


def test_the_region_chooses_the_address() -> None:
    for region, url in API.items():
        own = {"account_id": 1, "api_key": "k", "region": region}
        built = CONNECTOR.configured(Settings.model_validate({"new_relic": own}))
        assert isinstance(built, NewRelicConnector)
        assert built._account.reads.base_url == url
    with pytest.raises(pydantic.ValidationError):
        Settings.model_validate({"new_relic": {"region": "mars"}})


def test_the_key_is_sent_and_names_are_literals(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server), services=("checkout", "x') OR (true"))
    assert {one.headers["Api-Key"] for one in server.asked} == {stand_in.KEY}
    assert any(r"'x\') OR (true'" in text for text in asked_nrql(server))


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "authentication failed"), (403, "not permitted")]
)
def test_a_refusal_is_a_gap(server: LocalServer, tmp_path: Path, status: int, reason: str) -> None:
    built = connector(server)
    server.on(stand_in.GRAPHQL, Reply({"errors": [{"message": "secret"}]}, status=status))
    found = collected(tmp_path, built)
    assert found.items == ()
    assert {one.kind for one in found.missing} == set(built.kinds)
    assert any(reason in one.reason for one in found.missing)


def test_an_account_that_the_key_cannot_read_is_a_gap_and_no_empty_answer(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    server.on(stand_in.GRAPHQL, Reply({"data": {"actor": {"account": None}}}))
    found = collected(tmp_path, built)
    assert any("cannot be read with this key" in one.reason for one in found.missing)
    assert not asyncio.run(built.check()).ok


def test_a_query_that_new_relic_refuses_is_a_gap_with_its_words(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    error = {"data": {"actor": {"account": {"nrql": None}}}, "errors": [{"message": "NRQL Syntax"}]}
    server.on(stand_in.GRAPHQL, Reply(error))
    found = collected(tmp_path, built)
    assert any("NRQL Syntax" in one.reason for one in found.missing)


def test_a_service_without_data_is_named(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "payments"))
    assert [(one.query, one.unknown) for one in found.missing] == [("payments", True)]


def test_check_says_which_events_there_are(server: LocalServer) -> None:
    built = connector(server)
    said = asyncio.run(built.check())
    assert said.ok
    assert "account 1234567" in said.line
    assert "Transaction (metrics), Span (spans), Log (logs), Deployment (changes)" in said.line
    server.on(stand_in.GRAPHQL, stand_in.rows([{"events": 0}]))
    assert "none in the last hour" in asyncio.run(built.check()).line


def test_hostile_rows_are_left_out() -> None:
    names = ServiceNames()
    bad: list[dict[str, Any]] = [
        {},
        {"timestamp": "soon", "message": "x"},
        {"timestamp": 1, "message": "too early"},
        {"beginTimeSeconds": 1e400, "facet": ["a", "b"], "rate": float("nan")},
        {"timestamp": 1_772_452_800_000, "message": {"no": "text"}, "trace.id": 7, "id": []},
    ]
    assert rows.golden_rows(bad, names, 1.0) == []
    assert rows.count_rows(bad, "a", CountGrid(0, 60, 10)) == []
    assert rows.line_page(bad, "a").left_out == len(bad)
    assert rows.span_rows(bad, names) == ([], len(bad))
    (change,) = rows.change_rows(bad[4:], names, "https://x")
    assert change[1] is None


def test_the_page_names_attributes_and_limits_as_they_are() -> None:
    page = " ".join(
        (Path(__file__).parents[2] / "docs/connectors/new_relic.md").read_text().split()
    )
    for name in (*queries.LOG_NAMES, *queries.LEVELS, LINES, ERROR_LINES):
        assert f"`{name}`" in page, name
    pace = f"{LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once"
    limits = f"{LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds"
    assert f"At most {pace}, {limits}" in page
    assert f"up to {ERRORS:,} at once" in page
    assert f"up to {SAMPLE} at once" in page
    assert f"{queries.MOST_TRACES} traces of each window" in page
    assert f"at most {MOST_SERVICES} services" in page
    assert f"the first {MOST_TRACED} services" in page
    assert f"latest {queries.MOST_CHANGES}" in page
