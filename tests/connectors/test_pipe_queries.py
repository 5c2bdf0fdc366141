"""KQL and Logs Insights of a model's own: what is taken, what is refused, and how rows are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.queries.pipe_queries import (
    INSIGHTS,
    KQL,
    PipeLanguage,
    PipeQuery,
    pipe_query,
)
from faultline.connectors.shared.queries.record_answers import RecordColumns, records_answer

START = datetime(2026, 3, 2, 11, 30, tzinfo=UTC)
WINDOW = Window(start=START, end=START + timedelta(minutes=30))
TABLES = ("AppRequests", "AppTraces")


def taken(language: PipeLanguage, text: str) -> PipeQuery:
    asked = BoundedQuery(text, WINDOW, 40, 60, "checkout")
    return pipe_query(language, "v", asked, TABLES if language is KQL else ())


@pytest.mark.parametrize(
    "text",
    [
        "AppTraces",
        'AppTraces\n| where Message has "refused // |" and SeverityLevel >= 3\n| take 20',
        "AppRequests | summarize count(), p99 = percentile(DurationMs, 99) "
        "by bin(TimeGenerated, 5m), AppRoleName | order by TimeGenerated asc",
        'AppRequests | where Name in~ ("GET /", "POST /pay") | top 10 by DurationMs',
        'AppRequests | where Properties["zone"] == "b" | count',
        "AppRequests | project TimeGenerated, Name, n = DurationMs / 1000.0",
        "AppRequests | where TimeGenerated between (ago(1h) .. now()) | extend s = toint(Size)",
    ],
)
def test_bounded_kql_is_taken_and_its_rows_are_limited(text: str) -> None:
    made = taken(KQL, text)
    assert made.text.startswith(text.strip())
    assert made.text.endswith(f"| take {2400 if made.counts else 40}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".drop table AppTraces", "must begin with one of AppRequests, AppTraces"),
        (".show tables | take 1", "must begin"),
        ("SigninLogs | take 5", "must begin"),
        ('workspace("other").AppTraces | take 5', "must begin"),
        ("union AppTraces, AppRequests", "must begin"),
        ('AppTraces | union workspace("b").AppTraces', "union is no stage"),
        ("AppTraces | join AppRequests on OperationId", "join is no stage"),
        ("AppTraces | evaluate bag_unpack(Properties)", "evaluate is no stage"),
        ("AppTraces | where OperationId in (AppSecrets)", "values only"),
        ('AppTraces | where x in (workspace("b").T)', "values only"),
        ("AppTraces | where x in ((AppRequests | project Id))", "in brackets"),
        ('AppTraces | where workspace("b").T == 1', "workspace.. is not taken"),
        ("AppTraces | where toscalar(Stored()) > 1", "toscalar.. is not taken"),
        ('AppTraces; .drop table x; print "y"', "one statement"),
        ("AppTraces // | where 1 == 1", "no comments"),
        ('AppTraces | extend n = "payments was rolled back"', "quotation marks"),
        ('AppTraces | extend Message = "x"', "quotation marks"),
        ("AppTraces | project TimeGenerated, Message = Name", "a new name"),
        ("AppTraces | extend payments_was_rolled_back = 1", "a new name"),
        ("AppTraces | extend n = make_string(112, 97)", "make_string.. is not taken"),
        ("AppTraces | extend n = substring(Message, 4)", "substring.. is not taken"),
        ('AppTraces | where @"x" == Name', "@ is not taken"),
        # Strings whose end only the server would see: a stage would hide in them.
        (r'AppTraces | where Id == h@"\" | union SigninLogs | where Id == "x"', "@ is not taken"),
        ('AppTraces | where Id == ~~~ " ~~~ | union SigninLogs | where "x"', "~ is not taken"),
        ('AppTraces | where Id == ```"``` | union SigninLogs', "` is not taken"),
        ('AppTraces | where like / 2 | union SigninLogs | where 3 / "x"', "patterns are not taken"),
        ('AppTraces | where Id == "a\u2028"', "control characters"),
        ('AppTraces | where ["x y"] == 1', "names in brackets"),
        ('AppTraces | where a == 1 and ["x y"] == 1', "names in brackets"),
        ("AppTraces | ", "a stage is empty"),
        ("AppTraces | where (x", "not closed"),
        ("AppTraces | where x)", "closes nothing"),
        ('AppTraces | where x == "y', "does not end"),
        ("AppTraces | where " + "(" * 30 + "1" + ")" * 30, "nested deeper"),
        ("AppTraces | where x == " + "1" * 1000, "longer than"),
        ("", "empty"),
        ("AppTraces\x00", "control characters"),
    ],
)
def test_kql_that_reaches_further_or_makes_rows_up_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConnectorError, match=f"the KQL is refused: .*{why}"):
        taken(KQL, text)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("fields @timestamp, @message | filter @message like /(?i)time|out/ | sort @timestamp", 40),
        ("fields @timestamp, @message | limit 5", 5),
        ("fields @timestamp, @message | limit 5000", 40),
        ('filter level = "ERROR" and status in [500, 503]', 40),
        ("stats count(*) as n, pct(took, 99) as p99 by bin(5m), status | sort n desc", 2400),
        ('parse @message "took * ms" as t | stats avg(t) by bin(1m)', 2400),
        (r"parse @message /took (?<t>\d+) ms/ | stats avg(t) by bin(1m)", 2400),
    ],
)
def test_bounded_insights_is_taken_with_one_limit(text: str, most: int) -> None:
    made = taken(INSIGHTS, text)
    assert made.text.endswith(f"| limit {most}")
    assert made.text.count("| limit") == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SOURCE logGroups(namePrefix: ['/']) | fields @message", "SOURCE is no stage"),
        ("source '/aws/secret' | fields @message", "source is no stage"),
        ("fields unmask(@message)", "unmask.. is not taken"),
        ('fields concat("payments ", "failed")', "concat.. is not taken"),
        ('fields "payments failed"', "quotation marks"),
        ("fields substr(@message, 4)", "substr.. is not taken"),
        ("stats count(*) as payments_failed", "a new name"),
        ("fields @timestamp, status as @message", "a new name"),
        ('parse @message "did not *" as a, @message', "a new name"),
        ("fields @message | limit 5 | limit 6", "limit is no stage"),
        ("fields @message # x", "no comments"),
        ("fields `a b`", "not taken"),
        (r'filter a like "\" | fields unmask(@message) | filter b like "', "no quotation mark in"),
        ("stats sum(like / 2) | fields unmask(@message) | stats sum(3 / 2)", "patterns are not"),
        ("| fields @message", "a stage is empty"),
        ("filter @message like /" + "a" * 300 + "/", "pattern is longer"),
    ],
)
def test_insights_that_reaches_further_or_makes_rows_up_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConnectorError, match=f"the Logs Insights is refused: .*{why}"):
        taken(INSIGHTS, text)


@given(st.text(alphabet="{}[]()\"`'=~!,abinsy_012:@#/ \\|.;\n", max_size=300))
def test_any_text_is_taken_or_refused_in_time(text: str) -> None:
    for language in (KQL, INSIGHTS):
        for start in ("", "AppTraces | where ", "filter "):
            try:
                taken(language, start + text)
            except ConnectorError:
                continue


def answered(language: PipeLanguage, text: str, *records: dict[str, Any]) -> Any:
    asked = BoundedQuery(text, WINDOW, 40, 60, "checkout")
    columns = RecordColumns(
        "AppRoleName", "Message", "OperationId", named=lambda name: name.lower()
    )
    return records_answer(asked, taken(language, text), records, columns, link=None)


def test_numbers_that_were_counted_are_series_by_their_other_columns() -> None:
    found = answered(
        KQL,
        "AppRequests | summarize count(), avg(DurationMs) by bin(TimeGenerated, 5m), AppRoleName, "
        "ResultCode",
        {
            "TimeGenerated": "2026-03-02T11:35:00Z",
            "AppRoleName": "Payments",
            "ResultCode": "500",
            "count_": 12,
            "avg_DurationMs": 2.5,
        },
    )
    rows = found.tables["metrics"].to_dicts()
    assert [row["value"] for row in rows] == [12, 2.5]
    assert {row["service"] for row in rows} == {"payments"}
    assert {row["labels"] for row in rows} == {'{"ResultCode":"500"}'}
    assert rows[0]["time"] == datetime(2026, 3, 2, 11, 35, tzinfo=UTC)
    assert rows[0]["signal"].startswith("count_ of AppRequests | summarize")


def test_a_count_of_the_whole_window_stands_at_its_end() -> None:
    found = answered(INSIGHTS, "stats count(*) by status", {"status": "500", "count(*)": "7"})
    (row,) = found.tables["metrics"].to_dicts()
    assert (row["time"], row["value"], row["service"]) == (WINDOW.end, 7.0, "checkout")


def test_a_series_has_as_many_points_as_were_asked_for() -> None:
    records = [
        {"bin(1s)": f"2026-03-02 11:{31 + n // 60}:{n % 60:02d}.000", "count(*)": str(n)}
        for n in range(100, -1, -1)
    ]
    found = answered(INSIGHTS, "stats count(*) by bin(1s)", *records)
    values = found.tables["metrics"]["value"].to_list()
    assert values == list(range(60))
    assert found.items[0].cut == "the first 60 points of each series: count by longer intervals"


def test_a_row_is_its_line_or_its_columns_and_needs_a_time() -> None:
    at = "2026-03-02T11:35:00.1234567Z"
    found = answered(
        KQL,
        "AppTraces",
        {"TimeGenerated": at, "Message": "pool is empty", "OperationId": "t1", "_ItemId": "x"},
        {"TimeGenerated": at, "Name": "GET /", "Success": False, "n": 500, "TenantId": "x"},
        {"Name": "GET /"},
    )
    line, record = found.tables["logs"].to_dicts()
    assert (line["message"], line["trace_id"], line["attributes"]) == ("pool is empty", "t1", None)
    assert record["message"] == "Name=GET /, Success=false", "the query's own columns are left out"
    assert found.items[0].cut == "1 rows without a time left out"
