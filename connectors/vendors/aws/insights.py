"""One query of Logs Insights: started, waited for, and stopped when time or the budget of scanned
bytes is up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.aws.calls import AwsCalls, entries, objects
from faultline.connectors.vendors.aws.evidence import words
from faultline.connectors.vendors.aws.session import VENDOR, AwsPlace

FIRST_WAIT_S, LONGEST_WAIT_S = 0.3, 2.0
GIVE_UP_S = 1.5
"""So long before the deadline a query is stopped, so that what others brought is not lost."""
UNDER_WAY = frozenset({"Scheduled", "Running", "Unknown"})
GB = 1e9
Row = Mapping[str, str]


@dataclass(frozen=True)
class InsightsResult:
    """Rows by field name. `matched` is how many lines the query found, before its limit."""

    rows: list[Row]
    scanned_bytes: float
    matched: float


class ScanBudget:
    """Bytes that all queries of one collection may scan together; AWS bills by them."""

    def __init__(self, gb: float) -> None:
        self.gb = gb
        self._by_query: dict[str, float] = {}

    @property
    def used(self) -> float:
        """Bytes scanned so far."""
        return sum(self._by_query.values())

    def note(self, query_id: str, scanned: float) -> None:
        """Raise BudgetExceeded when all together have scanned too much."""
        self._by_query[query_id] = scanned
        self.check()

    def check(self) -> None:
        """Raise BudgetExceeded when nothing is left."""
        if self.used > self.gb * GB:
            raise BudgetExceeded(
                "bytes scanned in logs", f"{self.gb:g} GB (aws.logs_max_scanned_gb)"
            )


async def ask(
    calls: AwsCalls,
    place: AwsPlace,
    groups: Sequence[str],
    query: str,
    window: Window,
    budget: ScanBudget,
) -> InsightsResult:
    """The answer. Raises ConnectorError, BudgetExceeded; an abandoned query is stopped."""
    budget.check()
    started = await calls.call(
        place,
        "logs",
        "StartQuery",
        logGroupNames=list(groups),
        queryString=query,
        startTime=int(window.start.timestamp()),
        endTime=int(window.end.timestamp()),
    )
    query_id = words(started.get("queryId"), 256)
    if not query_id:
        raise ConnectorError(VENDOR, "StartQuery", "the answer names no query")
    done = False
    try:
        answer = await _results(calls, place, query_id, budget)
        done = True
    finally:
        if not done:
            # A query that nobody waits for is not left to run; that it cannot be stopped is no
            # news.
            with contextlib.suppress(FaultlineError):
                await calls.call(place, "logs", "StopQuery", queryId=query_id)
    return answer


async def _results(
    calls: AwsCalls, place: AwsPlace, query_id: str, budget: ScanBudget
) -> InsightsResult:
    wait = FIRST_WAIT_S
    while True:
        answer = await calls.call(place, "logs", "GetQueryResults", queryId=query_id)
        numbers = answer.get("statistics")
        numbers = numbers if isinstance(numbers, Mapping) else {}
        scanned = _number(numbers.get("bytesScanned"))
        budget.note(query_id, scanned)
        status = words(answer.get("status"), 40)
        if status == "Complete":
            return InsightsResult(
                _rows(answer.get("results")), scanned, _number(numbers.get("recordsMatched"))
            )
        if status not in UNDER_WAY:
            raise ConnectorError(
                VENDOR, "GetQueryResults", f"the query ended as {status or 'nothing'}"
            )
        if calls.bounds.deadline.remaining < wait + GIVE_UP_S:
            phrase = f"the query was still running and was stopped after {scanned / GB:.2f} GB"
            raise ConnectorError(VENDOR, "GetQueryResults", phrase)
        await asyncio.sleep(wait)
        # Short queries end soon, so ask early and then less often.
        wait = min(LONGEST_WAIT_S, wait * 1.6)


def _rows(results: Any) -> list[Row]:
    rows: list[Row] = []
    for row in entries(results):
        named = {
            f["field"]: f["value"]
            for f in objects(row)
            if isinstance(f.get("value"), str) and isinstance(f.get("field"), str)
        }
        if named:
            rows.append(named)
    return rows


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and value >= 0 else 0.0
